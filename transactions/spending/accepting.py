"""Accepting under spending rules: what a request counts on limits is reserved in the transaction that inserts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from relayers.models import Relayer
from spending import rules
from spending.rules import Limit, Payload, Verdict
from transactions.models import Transaction
from transactions.spending.counters import Counters, NewCharges
from transactions.spending.holders import (
    GAS,
    TOKEN,
    Holder,
    Key,
    SpendingRefused,
    limit_rule,
    limit_verdict,
    payload_of,
    read_holders,
    read_rules,
    refusals,
)
from transactions.spending.windows import HOURS

OTHERS_GAS = "The gas of a transaction that another token requested; replace it, so that it counts on this limit."


def check_rules(relayer: Relayer, token_spending_id: int | None, payload: Payload) -> list[Holder]:
    """Return who has rules for a request; raise `SpendingRefused` if one of them does not allow it at all."""
    if relayer.spending_id is None and token_spending_id is None:
        return []
    holders = read_holders(relayer, token_spending_id)
    for name, verdict in refusals(holders, payload):
        raise SpendingRefused(name, verdict, relayer.pk, payload)
    return holders


def within_window(end: datetime, holders: Sequence[Holder], now: datetime) -> datetime:
    """Return when a request of these holders expires: before it stops to count, if they have limits.

    In flight for longer, it could be mined together with what the limits allow on the next day.
    """
    has_limits = any(holder.limits for holder in holders)
    return min(end, now + timedelta(hours=HOURS)) if has_limits else end


def check_price_is_counted(row: Transaction, payload: Payload, token_spending_id: int | None) -> None:
    """Raise `SpendingRefused` if a token with a limit of gas raises the price of what does not count on it."""
    if token_spending_id is None or token_spending_id == row.token_spending_id:
        return
    for limit in rules.limits(read_rules([token_spending_id]).get(token_spending_id, {})):
        if limit.name == GAS:
            verdict = Verdict(limit_rule(GAS), False, OTHERS_GAS)
            raise SpendingRefused(TOKEN, verdict, row.relayer_id or 0, payload)


def counted_limits(holders: Sequence[Holder], row: Transaction) -> dict[Key, tuple[Holder, Limit, int]]:
    """Return the limits that a row counts on, each with its holder and the amount."""
    if not holders:
        return {}
    amounts = rules.amounts(payload_of(row))
    return {
        holder.key(limit): (holder, limit, amounts[limit.name])
        for holder in holders
        for limit in holder.limits
        if limit.name in amounts
    }


def reserve(holders: Sequence[Holder], row: Transaction, now: datetime) -> NewCharges | None:
    """Lock the limits of a row, and return what it counts; raise `SpendingRefused` if it exceeds one.

    The row is inserted right after this, with its charges: others wait for the locks. Gas is reserved when its price
    is known: with the nonce.
    """
    counted = counted_limits(holders, row)
    return charge(counted, row, Counters(counted, now)) if counted else None


def charge(counted: Mapping[Key, tuple[Holder, Limit, int]], row: Transaction, counters: Counters) -> NewCharges:
    """Return what a row counts; raise `SpendingRefused` if it exceeds a limit."""
    for key, (holder, limit, amount) in counted.items():
        verdict = limit_verdict(limit, counters.used(key), amount)
        if not verdict.allowed:
            assert row.relayer_id is not None
            raise SpendingRefused(holder.name, verdict, row.relayer_id, payload_of(row))
    return NewCharges(counters, {key: amount for key, (_, _, amount) in counted.items()})
