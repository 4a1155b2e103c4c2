"""The commit of a turn. It depends on the lease of the lane, and on rows being as they were read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Max, UUIDField

from chain.transactions import Draft
from relayer_service.database.access import require_durability
from relayer_service.database.compiled import compiled
from relayer_service.database.inserting import insert_rows
from relayer_service.database.updating import update_each
from transactions import metrics
from transactions.changes import Changes, lock_rows
from transactions.events import TRANSACTION_REPLACED
from transactions.lanes.prices.planning import Closing, Wait
from transactions.lanes.signing import Signed
from transactions.limits.budgets import Budget
from transactions.models import NOOPS, Attempt, Lane, Status, Transaction, amount_text
from transactions.records.crash_points import step
from transactions.records.states import Cause
from transactions.settlement.nonces import holds, witness

# What a requested action that is no no-op is done with.
DONE_BY: dict[str, Attempt.Purpose] = {
    Transaction.Action.REPLACE: Attempt.Purpose.REPLACE,
    Transaction.Action.SPEED_UP: Attempt.Purpose.BUMP,
}


class LeaseLost(Exception):
    """Another worker has the lane, or its relayer was changed: nothing was written."""


@dataclass(frozen=True)
class NewAttempt:
    """Signed bytes to commit: for a row without a nonce, for one in flight, or for an unused nonce (`row` is None)."""

    row: Transaction | None
    purpose: Attempt.Purpose
    signed: Signed
    max_cost: int
    # Since when private nodes have it; None if it goes to public ones.
    private_since: int | None = None
    noop_extra: int = 0

    @property
    def draft(self) -> Draft:
        return self.signed.draft

    @property
    def gas_cost(self) -> int:
        """The maximum that its gas costs, or that of a no-op instead, with charges for L1."""
        return self.max_cost - self.draft.value + self.noop_extra


@dataclass
class Result:
    """What a turn has to write in one commit."""

    # In ascending order of nonces, those of rows in flight first.
    attempts: list[NewAttempt] = field(default_factory=list)
    closings: list[Closing] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    # Reasons of rows in flight, by primary key.
    reasons: dict[int, tuple[Transaction, str]] = field(default_factory=dict)
    # Actions requested for rows in flight.
    actions: list[tuple[Transaction, Transaction.Action, str]] = field(default_factory=list)

    def rows(self) -> list[Transaction]:
        chosen = [each.row for each in self.attempts if each.row is not None]
        chosen += [each.row for each in self.closings] + [each.row for each in self.waits]
        chosen += [row for row, _ in self.reasons.values()]
        return chosen + [row for row, _, _ in self.actions]

    def __bool__(self) -> bool:
        return bool(self.attempts or self.closings or self.waits or self.reasons or self.actions)


def commit(lane: Lane, result: Result) -> list[Attempt]:
    """Write the result of a turn, and return the attempts that are committed: the longest valid prefix of each kind.

    Nonces, signed bytes and the status `sent` are written together; nothing is broadcast before this returns. If its
    outcome is unknown, the caller reads the rows again. Closings that the lane does not allow leave the result.
    """
    with transaction.atomic():
        require_durability()
        locked = lock_lane(lane)
        rows = lock_rows(result.rows(), [locked])
        changes = Changes(rows.values())
        may_assign = holds.allows_nonces(locked)
        if result.closings and not holds.allows_closing(locked):
            # While a lane is held, rows without a nonce are not closed either: they may own what is on the chain.
            result.closings.clear()
        _close(changes, rows, result.closings)
        for wait in result.waits:
            if row := rows.get(wait.row.pk):
                _postpone(changes, row, wait)
        for row, action, reason in result.actions:
            if row.pk in rows:
                changes.update(rows[row.pk], requested_action=action, action_reason=reason, status_reason=reason)
        for row, reason in result.reasons.values():
            if row.pk in rows and rows[row.pk].status_reason != reason:
                changes.update(rows[row.pk], status_reason=reason)
        attempts = _add_attempts(locked, changes, rows, result, may_assign)
        step("before_commit")
        changes.save()
    step("committed")
    for attempt in attempts:
        metrics.observe_attempts(locked.chain_id, attempt.purpose)
    return attempts


def lock_lane(lane: Lane) -> Lane:
    found: list[Lane] = _locked_lane(lane.pk, lane.lease)
    if not found:
        raise LeaseLost
    return found[0]


@compiled(None, UUIDField())
def _locked_lane(pk: int, lease: UUID) -> Any:
    lanes = Lane.objects.filter(pk=pk, lease=lease).select_for_update(no_key=True, of=("self",))
    return lanes.select_related("relayer__notification", "watch")


def _close(changes: Changes, rows: Mapping[int, Transaction], closings: Iterable[Closing]) -> None:
    for closing in closings:
        if row := rows.get(closing.row.pk):
            changes.move(row, closing.cause, closing.reason, revert_data=closing.revert_data)


def _postpone(changes: Changes, row: Transaction, wait: Wait) -> None:
    due_at = changes.now + timedelta(seconds=wait.seconds)
    columns = {"status_reason": wait.reason, "due_at": due_at, "tries": row.tries + 1}
    if wait.missing:
        columns |= {"reason_code": Transaction.Reason.FUNDS, "waiting_cost_text": amount_text(wait.missing.cost)}
    elif wait.is_over_limit:
        columns["reason_code"] = Transaction.Reason.LIMIT
    changes.update(row, **columns)


def _add_attempts(
    lane: Lane, changes: Changes, rows: Mapping[int, Transaction], result: Result, may_assign: bool
) -> list[Attempt]:
    new = result.attempts
    budget = _budget(lane, rows, result, changes.now)
    chosen = [*_for_rows_in_flight(rows, new, budget), *_for_unused_nonces(lane, new, changes.now, budget)]
    if may_assign:
        in_time = {pk: row for pk, row in rows.items() if row.valid_until > changes.now}
        chosen += _for_requests(lane, in_time, new, budget)
    budget.save()
    numbers = _last_numbers([row for row, _ in chosen])
    attempts = [_attempt(lane, row, each, numbers.get(row.pk, 0) + 1, changes.now) for row, each in chosen]
    insert_rows(attempts, "hash")
    for (row, _), attempt in zip(chosen, attempts, strict=True):
        if row.status == Status.PENDING:
            columns: dict[str, Any] = {
                "nonce": attempt.nonce,
                "epoch": lane.epoch,
                "last_attempt": attempt,
                "tries": 0,
                **_privacy(attempt),
            }
            changes.move(row, Cause.COMMITTED, attempt=attempt, **columns)
        else:
            _add_to_row_in_flight(changes, row, attempt)
    if attempts:
        lane.generation, lane.witness = lane.generation + 1, lane.witness or witness.new_name()
        update_each([lane], ["next_nonce", "generation", "witness"])
        # Before anything is broadcast.
        transaction.on_commit(lambda: witness.write(lane))
    return attempts


def _add_to_row_in_flight(changes: Changes, row: Transaction, attempt: Attempt) -> None:
    """Write the newest attempt of a row; a replacement or a higher price that was requested is done with it.

    A no-op is not: until it is mined, the action says why it was signed.
    """
    columns: dict[str, Any] = {"last_attempt": attempt, **_privacy(attempt)}
    if attempt.purpose == DONE_BY.get(row.requested_action):
        columns |= {"requested_action": "", "status_reason": ""}
    if attempt.purpose == Attempt.Purpose.REPLACE:
        changes.announce(row, TRANSACTION_REPLACED, **columns)
    else:
        changes.update(row, **columns)


def _privacy(attempt: Attempt) -> dict[str, Any]:
    """Return what keeps a row private: if it is queued again, the policy may have changed."""
    return {} if attempt.private_since is None else {"is_private": True}


Chosen = list[tuple[Transaction, NewAttempt]]


def _budget(lane: Lane, rows: Mapping[int, Transaction], result: Result, now: datetime) -> Budget:
    """Return what the rows of a commit may spend, with the limits locked, also of those that it closes."""
    if not result.attempts:
        return Budget(None, [], now, lock=True)
    chosen = [*(each.row for each in result.attempts), *(each.row for each in result.closings)]
    locked = [rows[row.pk] for row in chosen if row is not None and row.pk in rows]
    return Budget(locked[0].relayer if locked else lane.relayer, locked, now, lock=True)


def _for_rows_in_flight(rows: Mapping[int, Transaction], new: Sequence[NewAttempt], budget: Budget) -> Chosen:
    """Return attempts for rows with a nonce. A spending limit of gas stops all but no-ops, which are counted, too.

    A replacement may have waited, and limits may have been set since.
    """
    chosen = []
    for each in new:
        if each.row is None or each.row.nonce is None or (row := rows.get(each.row.pk)) is None:
            continue
        if each.purpose not in NOOPS and (budget.exceeds_gas(row, each.gas_cost) or budget.price_refusal(row)):
            continue
        if each.purpose == Attempt.Purpose.REPLACE:
            if budget.refusal(row) or budget.shortage(row, gas_cost=0):
                continue
            budget.spend_amounts(row)
        budget.spend_gas(row, each.gas_cost)
        chosen.append((row, each))
    return chosen


def _for_unused_nonces(lane: Lane, new: Sequence[NewAttempt], now: datetime, budget: Budget) -> Chosen:
    """Return no-ops for nonces that are still unused, each with a row of its own."""
    noops = [each for each in new if each.row is None]
    unused = set(holds.noops_due(lane)) if noops else set()
    chosen = []
    for each in noops:
        if each.draft.nonce not in unused:
            break
        if each.draft.nonce == lane.next_nonce:
            lane.next_nonce += 1
        row = Transaction(lane=lane, kind=Transaction.Kind.GAP, to=lane.address, valid_until=now, created_at=now)
        row.relayer = lane.relayer
        # Pending until it has its attempt, as any row.
        row.save()
        budget.spend_gas(row, each.gas_cost)
        chosen.append((row, each))
    return chosen


def _for_requests(lane: Lane, rows: Mapping[int, Transaction], new: Sequence[NewAttempt], budget: Budget) -> Chosen:
    """Return requests in the order of their tentative nonces, until one cannot get its own: nonces have no gaps.

    It was changed or has expired meanwhile, or others have used its spending limits, or the rules were changed.
    """
    chosen = []
    for each in new:
        if each.row is None or each.row.nonce is not None:
            continue
        row = rows.get(each.row.pk)
        if row is None or each.draft.nonce != lane.next_nonce:
            break
        if budget.refusal(row) or budget.shortage(row, each.gas_cost):
            break
        budget.spend(row, each.gas_cost)
        lane.next_nonce += 1
        chosen.append((row, each))
    return chosen


def _last_numbers(rows: Sequence[Transaction]) -> dict[int, int]:
    """Return the number of the newest attempt of each row that has any: one that was queued again has some, too."""
    if all(row.last_attempt_id is None for row in rows):
        return {}
    found = Attempt.objects.filter(transaction__in=rows).values("transaction").annotate(last=Max("number"))
    return dict(found.values_list("transaction", "last"))


def _attempt(lane: Lane, row: Transaction, new: NewAttempt, number: int, now: datetime) -> Attempt:
    prices = new.draft.prices
    return Attempt(
        # By its key: rows and attempts that refer to each other would wait for the garbage collector.
        transaction_id=row.pk,
        number=number,
        purpose=new.purpose,
        payload_version=row.payload_version,
        lane=lane,
        epoch=lane.epoch,
        nonce=new.draft.nonce,
        hash=new.signed.hash,
        raw=new.signed.raw,
        gas_limit=new.draft.gas,
        gas_price_text=amount_text(prices.gas_price),
        max_fee_text=amount_text(prices.max_fee),
        max_priority_fee_text=amount_text(prices.max_priority_fee),
        max_cost_text=str(new.max_cost),
        signed_at=now,
        private_since=new.private_since,
    )
