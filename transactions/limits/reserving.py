"""Accepting under spending rules: what a request counts on limits is reserved in the transaction that inserts it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

from spending import rules
from spending.rules import Limit, Payload, Verdict
from transactions.limits.counters import Counters, NewCharges
from transactions.limits.holders import (
    GAS,
    TOKEN,
    Holder,
    Key,
    SpendingRefused,
    limit_rule,
    limit_verdict,
    limits_of,
    payload_of,
    read_rules,
    refusals,
)
from transactions.models import Transaction


def check_spending_rules(holders: Sequence[Holder], row: Transaction, payload: Payload, relayer_pk: int) -> None:
    """Raise `SpendingRefused` if the rules of a holder do not allow a payload at all."""
    for name, verdict in chain(refusals(holders, payload), gas_refusals(holders, row)):
        raise SpendingRefused(name, verdict, relayer_pk, payload)


def gas_refusals(holders: Sequence[Holder], row: Transaction) -> Iterator[tuple[str, Verdict]]:
    """Yield the limits of gas that a request is never within: of 0, or below its own gas limit and price."""
    cost = (row.requested_gas_limit or 1) * int(row.gas_price_text or row.max_fee_text or 1)
    for holder, limit in limits_of(holders):
        if limit.name == GAS and cost > limit.maximum:
            text = f"Gas cost of at least {cost} wei; the maximum in 24 hours is {limit.maximum} wei."
            yield holder.name, Verdict(limit_rule(GAS), False, text)


def check_price_is_counted(row: Transaction, payload: Payload, token_spending_id: int | None) -> None:
    """Raise `SpendingRefused` if a token with a limit of gas raises the price of what does not count on it."""
    if token_spending_id is None or token_spending_id == row.token_spending_id:
        return
    for limit in rules.limits(read_rules([token_spending_id]).get(token_spending_id, {})):
        if limit.name == GAS:
            why = "The gas of a transaction that another token requested; replace it, so that it counts on this limit."
            raise SpendingRefused(TOKEN, Verdict(limit_rule(GAS), False, why), row.relayer_id or 0, payload)


def counted_limits(holders: Sequence[Holder], row: Transaction) -> dict[Key, tuple[Holder, Limit, int]]:
    """Return the limits that a row counts on, each with its holder and the amount."""
    if not holders:
        return {}
    amounts = rules.amounts(payload_of(row))
    return {
        holder.key(limit): (holder, limit, amounts[limit.name])
        for holder, limit in limits_of(holders)
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
