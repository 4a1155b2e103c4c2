"""Attempts in flight: when to raise their price ("bump" it), and when to give them up. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.conf import settings

from chain.broadcast.sending import Outcome
from chain.errors import ChainFault
from chain.networks import Network
from chain.transactions import Prices
from chain.units import gwei
from transactions.lanes.prices import pricing
from transactions.lanes.prices.context import TurnContext
from transactions.lanes.prices.market import BUMP_BLOCKS, MarketPrice
from transactions.lanes.prices.pricing import Ceiling, maximum
from transactions.limits.budgets import GasBudget
from transactions.models import NOOPS, Attempt, Transaction
from transactions.records.payloads import uses_gas_price

Speed = Transaction.Speed
# The minimum of a wait for `BUMP_BLOCKS`, as blocks of some networks take less than a second.
BUMP_SECONDS: dict[str, int] = {Speed.FASTEST: 10, Speed.FAST: 15, Speed.AVERAGE: 30, Speed.SAFE_LOW: 120}
# Rebroadcasts without effect after which the price is raised, whatever the market says.
FUTILE_REBROADCASTS = 3
FUTILE = "It was broadcast again and again without being mined."
# How long a price that its client set, and that no block includes, may hold up others; or an unsigned replacement.
BLOCKING_PATIENCE = timedelta(minutes=10)
# The same for a price that blocks may include, but below the market.
OUTBID_PATIENCE = timedelta(minutes=30)
# A tip counts as too low if the market's is more than a tenth above it: numerator and denominator.
TIP_TOLERANCE = (11, 10)
# Ceilings of one transaction: others of the lane can be raised above them.
OWN_CEILINGS = {"requested", "spending"}


@dataclass(frozen=True)
class Bump:
    """A new price for a row in flight, or the reason why a ceiling does not allow it."""

    prices: Prices | None
    reason: str = ""
    # The ceiling that does not allow it, for metrics: "gas_price_cap", "requested", "market", "network", "balance",
    # "spending" or "no-op".
    ceiling: str = ""
    # How long a row may hold up others at the price before; None if another price would not help.
    patience: timedelta | None = field(default=None, compare=False)


def is_review_due(row: Transaction, network: Network, now: datetime) -> bool:
    """Return whether a row in flight may need another attempt: no price is raised before half of its time is over."""
    last = row.last_attempt
    return bool(row.requested_action) or (last is not None and _waited(last, now) >= _patience(network, row.speed) / 2)


def review_price(context: TurnContext, row: Transaction, attempts: Sequence[Attempt], spendable: int) -> Bump | None:
    """Return a new price for one of the lowest rows in flight, the ceiling in its way, or None if none is needed.

    `attempts` are all of the row, the newest last; `spendable` is the balance beyond the reserve and the cost of
    nonces in flight. Neither the reserve nor a spending limit of gas stops no-ops.
    """
    old = pricing.highest(attempts)
    if old is None:
        return None
    last = attempts[-1]
    try:
        market = context.price(row)
    except ChainFault:
        return None
    cause = _cause(context, row, last, old, market)
    if not cause:
        return None
    is_noop, patience = last.purpose in NOOPS, None if cause == FUTILE else OUTBID_PATIENCE
    if _unminable(last, old, market):
        patience = BLOCKING_PATIENCE
    if row.pricing != Transaction.Pricing.SPEED and not is_noop:
        return Bump(None, f"{cause} Its client set the price, which is not raised.", "requested", patience)
    if cause == FUTILE and maximum(old) >= settings.FEE_CEILING_MULTIPLE * market.current:
        # Far above the market already: the price is not what keeps it from being mined.
        return _stopped(old, pricing.market_ceiling(market, 0))
    ceilings = _ceilings(context, row, last, old, spendable)
    return replace(_outbid(context, attempts, old, market, ceilings), patience=patience)


def requested_price(
    context: TurnContext, row: Transaction, attempts: Sequence[Attempt], spendable: int | None = None
) -> Bump | None:
    """Return the price of an attempt that was requested: explicit prices exactly, or else the market of its speed.

    The latter replaces all attempts of the row. None while the market is unknown; `spendable` is as above if
    the payload is that of the newest attempt, None if the cost is checked elsewhere.
    """
    old = pricing.highest(attempts)
    if old is None:
        return None
    network, policies = context.network, context.policies
    ceilings = [] if spendable is None else _ceilings(context, row, attempts[-1], old, spendable)
    if row.pricing != Transaction.Pricing.SPEED:
        prices = pricing.explicit_price(network, row)
        if policies.get("gas_price_cap") is not None:
            ceilings.append(pricing.policy_ceiling(network, policies))
        exceeded = [each for each in ceilings if each.price < maximum(prices)]
        return _stopped(old, exceeded[0]) if exceeded else Bump(prices)
    try:
        market = context.price(row)
    except ChainFault:
        return None
    limit = pricing.market_ceiling(market, 0)
    if row.requested_action == Transaction.Action.SPEED_UP and maximum(old) >= limit.price:
        # Step by step, requests would lead to any price.
        return _stopped(old, limit)
    return _outbid(context, attempts, old, market, ceilings)


def _outbid(
    context: TurnContext, attempts: Sequence[Attempt], old: Prices, market: MarketPrice, ceilings: Sequence[Ceiling]
) -> Bump:
    """Return the higher one of the market and of the minimum that replaces all attempts, below the ceilings."""
    required = pricing.replacement(old, pricing.named_minimum(attempts))
    wanted = pricing.highest_of(required, market.offer(is_legacy=old.gas_price is not None))
    ceiling = min(
        pricing.policy_ceiling(context.network, context.policies, is_noop=attempts[-1].purpose in NOOPS),
        pricing.market_ceiling(market, maximum(old)),
        *ceilings,
        key=lambda each: each.price,
    )
    prices = pricing.within(wanted, ceiling.price)
    if maximum(prices) < maximum(required):
        return _stopped(old, ceiling)
    return Bump(prices)


def _cause(context: TurnContext, row: Transaction, last: Attempt, old: Prices, market: MarketPrice) -> str:
    """Return why the price is due to be raised, or "" if it is not."""
    patience, waited = _patience(context.network, market.speed), _waited(last, context.now)
    if waited >= patience / 2 and (reason := _unminable(last, old, market)):
        return reason
    if _is_outbid(old, market) and waited >= patience:
        return f"It pays blocks less than the market, whose price is {gwei(market.current)}."
    is_next = row.nonce == context.account.count
    if is_next and last.broadcasts > FUTILE_REBROADCASTS and waited >= 3 * patience:
        return FUTILE
    return ""


def _unminable(last: Attempt, old: Prices, market: MarketPrice) -> str:
    """Return why no block includes a transaction at its price now, or ""."""
    limit = maximum(old)
    if limit < market.base_fee:
        return f"Its price of {gwei(limit)} is below the next base fee of {gwei(market.base_fee)}."
    # Private nodes do not report prices that are too low.
    is_reported = last.accepted_at is None and last.private_since is None
    is_refused = is_reported and last.outcome in {Outcome.UNDERPRICED, Outcome.REPLACEMENT_UNDERPRICED}
    return f"A node refused its price of {gwei(limit)} as too low." if is_refused else ""


def _patience(network: Network, speed: str) -> timedelta:
    """Return how long an attempt of a speed may take until its price is raised."""
    speed = speed or Speed.FAST
    return timedelta(seconds=max(BUMP_BLOCKS[speed] * network.block_seconds, BUMP_SECONDS[speed]))


def _waited(last: Attempt, now: datetime) -> timedelta:
    return now - (last.first_broadcast_at or last.signed_at)


def _is_outbid(old: Prices, market: MarketPrice) -> bool:
    """Return whether the market pays blocks over a tenth more than an attempt would."""
    limit = maximum(old)
    above, below = TIP_TOLERANCE
    if market.gas_price is not None:
        return market.current * below > limit * above
    rest = max(limit - market.base_fee, 0)
    tip = rest if old.gas_price is not None else min(old.max_priority_fee or 0, rest)
    return market.tip * below > tip * above


def _ceilings(context: TurnContext, row: Transaction, last: Attempt, old: Prices, spendable: int) -> list[Ceiling]:
    """Return the ceilings of an attempt with the same payload: the balance, and what is left of a spending limit."""
    budget = context.gas_budget(row) if last.purpose not in NOOPS else None
    balance = _balance_ceiling(context, last, old, spendable)
    return [balance] if budget is None else [balance, _gas_ceiling(context, last, old, budget)]


def _balance_ceiling(context: TurnContext, last: Attempt, old: Prices, spendable: int) -> Ceiling:
    # The cost of the last attempt is reserved already.
    price = maximum(old) + spendable // last.gas_limit if last.gas_limit else 0
    words = "the balance without the relayer's reserve" if context.sender.reserve else "the balance"
    return Ceiling("balance", price, f"{words}, which covers {gwei(max(price, 0))}")


def _gas_ceiling(context: TurnContext, last: Attempt, old: Prices, budget: GasBudget) -> Ceiling:
    try:
        # As above, what the last attempt can cost is counted already; or a no-op, a bump above it and rounded up.
        gas = max(last.gas_limit, pricing.bumped(context.noop_gas()))
    except ChainFault:
        return Ceiling("no-op", 0, f"{budget.words}: the gas of a no-op is unknown")
    price = maximum(old) + budget.left // gas - 1 if last.gas_limit else 0
    return Ceiling("spending", price, f"{budget.words}, of which {max(budget.left, 0)} wei are left in 24 hours")


def _stopped(old: Prices, ceiling: Ceiling) -> Bump:
    reason = f"Its price of {gwei(maximum(old))} is not raised, because of {ceiling.words}."
    return Bump(None, reason, ceiling.name)


def price_noop(
    context: TurnContext, attempts: Sequence[Attempt], old: Prices | None = None, chosen: int | None = None
) -> tuple[int, Prices]:
    """Return gas limit and price of a no-op that replaces these attempts, or an `old` price, or closes a nonce.

    Its maximum is that of the market, or the `chosen` one.

    A `ChainFault` is raised if the gas is unknown, or if there is neither an attempt nor a market. The price always
    outbids the attempts, which may be above a cap that was lowered since; otherwise it is at most two bumps above the
    cap, whatever minimum a node names.
    """
    network, policies = context.network, context.policies
    gas_limit = context.noop_gas()
    old = old or pricing.highest(attempts)
    is_legacy = old.gas_price is not None if old else uses_gas_price(network, policies)
    ceiling = pricing.policy_ceiling(network, policies, is_noop=True).price
    required = None
    if old:
        named = pricing.within(pricing.replacement(old, pricing.named_minimum(attempts)), ceiling)
        required = pricing.highest_of(pricing.replacement(old), named)
    try:
        offer = context.market.price(Speed.FAST).offer(is_legacy=is_legacy)
    except ChainFault:
        if required is None:
            raise
        offer = required
    offer = pricing.within(pricing.at(offer, chosen) if chosen is not None else offer, ceiling)
    return gas_limit, pricing.highest_of(required, offer) if required else offer


def blocking_reason(
    row: Transaction, last: Attempt, bump: Bump | None, others_wait: bool, head_since: datetime | None, now: datetime
) -> str:
    """Return the reason to expire a row that holds up the others of its lane, or "".

    Either its price is too low, and its client or a spending limit does not allow raising it, or its replacement
    cannot be signed, and the payload before may not leave any more. `head_since` is since when it is the next one to
    be mined.
    """
    if not others_wait or head_since is None or last.purpose in NOOPS:
        return ""
    if row.requested_action == Transaction.Action.REPLACE:
        waited = now - max(head_since, row.due_at) >= BLOCKING_PATIENCE
        reason = (
            f"Its replacement could not be signed for {BLOCKING_PATIENCE.seconds // 60} minutes, and holds up others."
        )
        return reason if waited else ""
    if row.requested_action or bump is None or bump.patience is None or bump.ceiling not in OWN_CEILINGS:
        return ""
    reason = f"{bump.reason} It has held up other transactions for {bump.patience.seconds // 60} minutes."
    return reason if now - head_since >= bump.patience else ""
