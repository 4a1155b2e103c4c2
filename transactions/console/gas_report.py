"""What transactions paid for gas, by day, relayer and requester: as CSV in wei, and as a page in coins."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from django.db.models import QuerySet

from chain.networks import Network, network_by_chain_id, networks
from relayer_service.amounts import decimal_text
from relayer_service.console.confirmation import Table
from relayer_service.console.overview.charts import AMOUNT_TICKS, bars, chart
from relayer_service.csv_export import EXPORT_BATCH, csv_lines
from relayers.console.formatting import amount
from relayers.models import RelayerTag
from transactions.console.exports import network_name, paid
from transactions.models import Transaction

# Rows that one query reads.
GAS_BATCH = 5_000
MAX_CHARTS, MAX_BARS, MAX_LINES = 4, 6, 200
# Those of the admin theme.
SHADES = ("blue-500", "orange-400", "green-500", "primary-400", "red-400", "blue-300")
COLOURS = [f"var(--color-{shade})" for shade in SHADES]
FEE_AXIS = {"stacked": True, "beginAtZero": True, "ticks": AMOUNT_TICKS}
OTHERS_COLOUR = "var(--color-base-400)"


class GasKey(NamedTuple):
    """What a line of the report of gas is about."""

    day: date
    relayer_id: str
    network: str
    chain_id: int
    address: str
    requested_by: str
    kind: str


@dataclass
class GasSpent:
    transactions: int = 0
    gas_used: int = 0
    fee: int = 0

    def add(self, other: "GasSpent") -> None:
        self.transactions += other.transactions
        self.gas_used += other.gas_used
        self.fee += other.fee


GAS_COLUMNS = [*GasKey._fields, *(each.name for each in fields(GasSpent)), "relayer_tags"]


def finished_between(first: date, last: date) -> QuerySet[Transaction]:
    """Return the transactions of all kinds that became final on these days."""
    start, end = datetime.combine(first, time.min, UTC), datetime.combine(last, time.max, UTC)
    return Transaction.objects.filter(finished_at__gte=start, finished_at__lte=end)


def gas_lines(rows: QuerySet[Transaction]) -> Iterator[str]:
    """Yield the lines of a CSV of what final transactions paid for gas."""
    spent = gas_spent(rows)
    tags = tags_of({key.relayer_id for key in spent})
    cells = ([*key, *astuple(spent[key]), " ".join(tags[key.relayer_id])] for key in sorted(spent))
    return csv_lines(GAS_COLUMNS, cells)


def tags_of(relayer_ids: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    rest = sorted(relayer_ids - {""})
    while batch := rest[:EXPORT_BATCH]:
        rows = RelayerTag.objects.filter(relayer__identifier__in=batch).order_by("name")
        for identifier, name in rows.values_list("relayer__identifier", "name"):
            found[identifier].append(name)
        rest = rest[EXPORT_BATCH:]
    return found


def gas_spent(rows: QuerySet[Transaction]) -> dict[GasKey, GasSpent]:
    """Return what was paid. Summed here: not every database adds integers of 256 bits."""
    spent: defaultdict[GasKey, GasSpent] = defaultdict(GasSpent)
    for key, gas_used, fee in receipts(rows):
        spent[key].add(GasSpent(1, gas_used, fee))
    return spent


def receipts(rows: QuerySet[Transaction]) -> Iterator[tuple[GasKey, int, int]]:
    """Yield the gas and the fee of each receipt, read in batches along the index of `finished_at`."""
    names = ("relayer__identifier", "relayer__network", "lane__chain_id", "lane__address", "requested_by", "kind")
    values: Any = rows.order_by("finished_at", "sequence")
    rest = values
    columns = ("finished_at", "sequence", "gas_used", "effective_gas_price_text", *names)
    while batch := list(rest.values_list(*columns)[:GAS_BATCH]):
        for finished_at, _, gas_used, price, relayer, network, chain_id, address, requested_by, kind in batch:
            fee = paid(gas_used, price)
            if fee is not None:
                name = network or network_name(chain_id)
                day = finished_at.astimezone(UTC).date()
                yield GasKey(day, relayer or "", name, chain_id, address, requested_by, kind), gas_used, fee
        finished_at, key, *_ = batch[-1]
        rest = values.filter(finished_at__gte=finished_at).exclude(finished_at=finished_at, sequence__lte=key)


GROUPS: dict[str, tuple[str, Callable[[GasKey], str]]] = {
    "relayer": ("Relayer", lambda key: key.relayer_id or "Deleted relayers"),
    "network": ("Network", lambda key: key.network),
    "token": ("Token or user", lambda key: key.requested_by or "The service"),
    "day": ("Day", lambda key: key.day.isoformat()),
}


@dataclass
class NetworkGas:
    """What was paid on one network: in all, and by group and day."""

    name: str
    chain_id: int
    total: GasSpent
    groups: dict[str, GasSpent]
    fees: dict[str, dict[date, int]]

    @property
    def network(self) -> Network | None:
        """The network of this name, or another with the same chain ID."""
        named = networks().get(self.name)
        return named if named and named.chain_id == self.chain_id else network_by_chain_id(self.chain_id)

    @property
    def title(self) -> str:
        return f"{self.name}: paid per day, in {self.network.symbol if self.network else 'wei'}"

    def chart(self, days: list[date], *, by_day: bool) -> dict[str, str]:
        """Return the fees of each day in coins, stacked by the groups that paid most."""
        most = [] if by_day else sorted(self.groups, key=lambda name: -self.groups[name].fee)[:MAX_BARS]
        datasets = [bars(name, self._coins(days, [name]), colour) for name, colour in zip(most, COLOURS, strict=False)]
        if rest := [name for name in self.groups if name not in most]:
            datasets.append(bars("Others" if most else "Paid", self._coins(days, rest), OTHERS_COLOUR))
        return chart([f"{day:%d %b}" for day in days], datasets, y=FEE_AXIS)

    def _coins(self, days: list[date], names: Iterable[str]) -> list[str | None]:
        network = self.network
        fees = (sum(self.fees[name].get(day, 0) for name in names) for day in days)
        return [decimal_text(fee, network.decimals if network else 0) for fee in fees]


def by_network(spent: Mapping[GasKey, GasSpent], group: str) -> list[NetworkGas]:
    """Return what was paid by network, those with most transactions first: their coins cannot be added."""
    found: dict[tuple[str, int], NetworkGas] = {}
    for key, part in spent.items():
        place, name = (key.network, key.chain_id), GROUPS[group][1](key)
        network = found.setdefault(place, NetworkGas(*place, GasSpent(), {}, {}))
        network.total.add(part)
        network.groups.setdefault(name, GasSpent()).add(part)
        fees = network.fees.setdefault(name, {})
        fees[key.day] = fees.get(key.day, 0) + part.fee
    return sorted(found.values(), key=lambda network: (-network.total.transactions, network.name))


def report(rows: QuerySet[Transaction], first: date, last: date, group: str) -> dict[str, Any]:
    found = by_network(gas_spent(rows), group)
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    charts = [(each.title, each.chart(days, by_day=group == "day")) for each in found[:MAX_CHARTS]]
    totals = [["Total", network.name, *cells(network, network.total)] for network in found if group != "network"]
    lines = totals + [
        [*([name] if group != "network" else []), network.name, *cells(network, spent)]
        for network in found
        for name, spent in sorted(network.groups.items(), key=lambda item: (group != "day" and -item[1].fee, item[0]))
    ]
    headers = [*([GROUPS[group][0]] if group != "network" else []), "Network", "Transactions", "Gas used", "Paid"]
    return {
        "table": Table(headers, lines[:MAX_LINES], max(0, len(lines) - MAX_LINES)) if lines else None,
        "charts": charts,
        "uncharted": max(0, len(found) - MAX_CHARTS),
    }


def cells(network: NetworkGas, spent: GasSpent) -> list[str]:
    fee = amount(spent.fee, network.network)
    return [f"{spent.transactions:,}", f"{spent.gas_used:,}", fee]
