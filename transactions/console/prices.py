"""The price with which staff speed up or cancel a transaction in flight: what it was, can be, and costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import copy
from typing import Any

from django import forms
from django.utils.html import format_html
from django.utils.http import urlencode
from unfold.widgets import UnfoldAdminSelectWidget

from chain.errors import ChainFault
from chain.transactions import Prices
from chain.units import gwei
from relayer_service.api.serializers import IntegerField
from relayer_service.background.shares import Busy, waiting_for_others
from relayer_service.console.confirmation import ReasonForm, Table
from relayer_service.console.lists.changelists import is_key
from relayer_service.database.clock import database_now
from relayer_service.storage.encryption import DecryptionError
from relayers.console.formatting import amount
from relayers.policies import MAX_AMOUNT
from relayers.policy_fields import AmountField
from transactions.console.stuck.panel import rounded
from transactions.lanes.prices import bumping, pricing
from transactions.lanes.prices.context import NOOP_GAS, AccountState, TurnContext
from transactions.lanes.prices.market import MarketPrice, Sender, read_market
from transactions.lanes.prices.pricing import maximum
from transactions.lanes.prices.simulation import noop_reading
from transactions.models import Transaction
from transactions.records.networks import known_network
from transactions.requests import replacement_prices
from transactions.requests.replacement_prices import PRICE_FIELDS, attempts_at_nonce
from transactions.serializers import SpeedUpSerializer

Action, Pricing, Speed = Transaction.Action, Transaction.Pricing, Transaction.Speed
# The query parameter of the fragment with prices of the market, and hidden fields of the form.
PRICES, VERSION, SHOWN = "prices", "version", "shown"
HEADERS = ["Price", "Per unit of gas", "Likely cost", "Highest cost"]
UNKNOWN, NOT_MINED, NO_PRICE = "unknown", "below the base fee", "Choose a speed, or enter a price."
HELP = {
    Action.SPEED_UP: "At least {}, at most {}. Used exactly, in place of a speed: it is not raised.",
    Action.CANCEL: "At least {}, at most {}. It rises with the market. If empty, the market price.",
}
# The explicit prices of REST, in the order of `Prices`.
REST_PRICES = [*PRICE_FIELDS[Pricing.LEGACY], *PRICE_FIELDS[Pricing.EIP1559]]
LABELS = {"noop_price": "Price of the no-op"}
TIP_HELP = "The part for the block's producer."


class PriceForm(ReasonForm):
    """The reason of an action, and a speed or an explicit price, which counts in place of the speed."""

    class Media:
        css = {"all": ["transactions/admin.css"]}
        js = ["transactions/stuck.js"]

    def __init__(self, row: Transaction, action: str, data: Any = None) -> None:
        super().__init__(data, required=False)
        self.row, self.action, self.attempts = row, action, attempts_at_nonce(row)
        self.names: tuple[str, ...] = ("noop_price",)
        self.range = replacement_prices.staff_price_range(row, self.attempts)
        if action == Action.SPEED_UP:
            initial = replacement_prices.staff_price(row).get("speed") or replacement_prices.next_speed(row)
            choices = [*((speed, f"Speed {speed}") for speed in Speed.values), ("", "The price below")]
            self.fields["speed"] = forms.ChoiceField(
                choices=choices, required=False, initial=initial, widget=UnfoldAdminSelectWidget, label="Price"
            )
            is_legacy = bool(self.attempts and self.attempts[-1].gas_price_text)
            self.names = PRICE_FIELDS[Pricing.LEGACY if is_legacy else Pricing.EIP1559]
        for name in self.names if self.attempts and action in HELP else ():
            text = HELP[Action(action)].format(*map(gwei, self.range)) if name == self.names[0] else TIP_HELP
            policy = IntegerField(max_value=MAX_AMOUNT, help_text=text)
            field = AmountField(policy, is_price=True, label=LABELS.get(name))
            field.show_in(known_network(row), None)
            self.fields[name] = field
        self.order_fields(["speed", *self.names, "reason"])

    @property
    def exact(self) -> dict[str, int]:
        """The explicit price, by the names of REST or as `noop_price`, as far as it is valid."""
        cleaned = getattr(self, "cleaned_data", {})
        return {name: cleaned[name] for name in self.names if cleaned.get(name) is not None}

    @property
    def values(self) -> dict[str, Any]:
        """The price as the function of the action receives it."""
        speed = self.cleaned_data.get("speed")
        default = replacement_prices.staff_price(self.row) if self.action == Action.SPEED_UP else {}
        return self.exact or ({"speed": speed} if speed else default)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        faults = SpeedUpSerializer().conflicts(self.exact) | replacement_prices.price_faults(self.exact, self.attempts)
        if self.data.get("speed") == "" and not self.exact and not self.errors:
            faults["speed"] = [NO_PRICE]
        lowest, highest = self.range
        for name, price in self.exact.items():
            if price > highest or (name == "noop_price" and price < lowest):
                faults[name] = [f"must be from {gwei(lowest)} to {gwei(highest)}"]
        for name, texts in faults.items():
            # An invalid price counts as none here.
            if name not in self.errors:
                self.add_error(name if name in self.fields else None, texts)
        if "speed" in self.fields and self.exact:
            # What is chosen with it is its default.
            self.data = {name: self.data[name] for name in self.data} | {"speed": ""}
        return cleaned

    def hidden(self) -> dict[str, object]:
        """Return what binds a confirmation to what the page shows: the version of the row, and the entered price."""
        return {VERSION: self.row.version, SHOWN: "" if self.errors else self._exact_text()}

    def is_shown(self) -> bool:
        """Return whether the page that was confirmed showed what the entered price costs; it shows all speeds."""
        return bool(self._exact_text() == self.data.get(SHOWN, ""))

    def confirmed(self) -> dict[str, Any]:
        version = self.data.get(VERSION, "")
        is_number = version.isdecimal() and is_key(version)
        return {"version": int(version) if is_number else None, "reason": self.cleaned_data["reason"]}

    def _exact_text(self) -> str:
        return " ".join(map(str, self.exact.values()))

    def url(self, path: str) -> str:
        return f"{path}?{urlencode({PRICES: '', **{name: self.data[name] for name in self.exact}})}"

    def table(self, context: TurnContext | None = None) -> Table:
        """Return what the transaction pays now, and what it can pay; with a context, at the price of the market."""
        try:
            market = context.price(self.row) if context else None
        except ChainFault:
            market = None
        rows, old = [], pricing.highest(self.attempts)
        if old is not None:
            rows.append(self._cells("Now", old, market))
        if context is not None and market is not None and self.attempts:
            rows.append(["Market", exact_on_hover(market.current), "", ""])
            rows += merged(self._new_rows(context, market))
        if self.exact and not self.errors and self.action == Action.SPEED_UP:
            rows.append(self._cells("New, as entered", Prices(*map(self.exact.get, REST_PRICES)), market))
        return Table(HEADERS, rows)

    def _new_rows(self, context: TurnContext, market: MarketPrice) -> Iterator[list[str]]:
        if self.action == Action.CANCEL:
            with suppress(ChainFault):
                gas, prices = bumping.price_noop(context, self.attempts, chosen=self.exact.get("noop_price"))
                yield self._cells("", prices, market, gas)
            return
        for speed in Speed.values:
            wanted = copy(self.row)
            wanted.pricing, wanted.speed, wanted.requested_action = Pricing.SPEED, speed, Action.SPEED_UP
            bump = bumping.requested_price(context, wanted, self.attempts)
            if bump is not None:
                own = context.price(wanted)
                yield self._cells(speed, bump.prices, own) if bump.prices else [speed, bump.reason, "", ""]

    def _cells(self, name: str, prices: Prices, market: MarketPrice | None, noop_gas: int = 0) -> list[str]:
        """Return a price, what it costs in the next block, and at most. All of its gas counts."""
        last, network, limit = self.attempts[-1], known_network(self.row), maximum(prices)
        cost, likely = noop_gas * limit if noop_gas else pricing.cost_after(last, prices), limit
        shown, current = exact_on_hover(limit), UNKNOWN
        if prices.gas_price is None:
            tip = prices.max_priority_fee or 0
            likely = min(limit, market.base_fee + tip) if market else 0
            shown = format_html("at most {}, priority {}", shown, exact_on_hover(tip))
        if market and limit < market.base_fee:
            current = NOT_MINED
        elif likely:
            current = amount(cost - (noop_gas or last.gas_limit) * (limit - likely), network)
        return [name, shown, current, amount(cost, network)]


def merged(rows: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yield new prices by their speeds, equal ones as one row."""
    speeds: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for speed, *cells in rows:
        speeds[tuple(cells)].append(speed)
    for shown, names in speeds.items():
        yield ["New" if len(speeds) == 1 else f"New, {' or '.join(names)}", *shown]


def exact_on_hover(price: int) -> str:
    return format_html('<span class="amount" title="{}">{}</span>', gwei(price), rounded(price))


def read(row: Transaction) -> TurnContext | None:
    """Read the market and the gas of a no-op, as a turn of the lane does; None if no node answers in time."""
    if row.relayer is None:
        return None
    try:
        sender = Sender.of(row.relayer, row.lane.address)
        with waiting_for_others():
            market, values = read_market(sender, {NOOP_GAS: noop_reading(sender)})
    except (Busy, ChainFault, DecryptionError):
        return None
    # No price depends on the account here.
    return TurnContext(sender, market, AccountState(0, 0), database_now(), noop_estimate=values[NOOP_GAS])
