"""The writes of a turn: what was changed between reading and committing decides what is committed."""

from __future__ import annotations

import uuid
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connections, transaction

from chain.broadcast.sending import Broadcast, Outcome
from chain.transactions import Draft, Prices
from relayer_service.database.clock import database_now
from tests.concurrency import wait_until, waits_for_a_lock
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from tests.transactions.factories import RECEIVER
from transactions.changes import lock_by_key
from transactions.lanes import leasing, outcomes
from transactions.lanes.broadcasting import Sent
from transactions.lanes.commits import LeaseLost, NewAttempt, Result, commit
from transactions.lanes.outcomes import REASONS, write_broadcasts
from transactions.lanes.prices.planning import Closing, Wait
from transactions.lanes.signing import Signed
from transactions.models import Attempt, Lane, Status, Transaction
from transactions.records.states import Cause
from transactions.requests import actions

pytestmark = [pytest.mark.django_db, pytest.mark.both_engines]

HOLDS = {"operator": {"since": "2026-11-16T12:00:00.000000Z", "details": ""}}


@pytest.fixture
def lane() -> Lane:
    """A lane that this worker holds."""
    claimed = leasing.claim(factories.lane(relayer_factories.relayer()).pk)
    assert claimed is not None
    return claimed


def signed(nonce: int, value: int = 0) -> Signed:
    draft = Draft(11155111, nonce, RECEIVER, value, b"", 21_000, Prices(max_fee=2, max_priority_fee=1))
    raw = bytes([nonce, value])
    return Signed(draft, raw, f"0x{raw.hex():>064}")


def send(row: Transaction, nonce: int) -> NewAttempt:
    return NewAttempt(row, Attempt.Purpose.SEND, signed(nonce), 42_000)


def bump(row: Transaction) -> NewAttempt:
    assert row.nonce is not None
    return NewAttempt(row, Attempt.Purpose.BUMP, signed(row.nonce, 7), 42_000)


def in_flight(lane: Lane, nonce: int = 0) -> Transaction:
    row = factories.transaction(lane, status=Status.SENT, nonce=nonce)
    factories.attempt(row, raw=b"signed")
    Lane.objects.filter(pk=lane.pk).update(next_nonce=nonce + 1)
    return row


def change(row: Transaction) -> None:
    """Change a row as another writer does, after this worker has read it."""
    Transaction.objects.filter(pk=row.pk).update(version=row.version + 1)


def hold(lane: Lane) -> None:
    Lane.objects.filter(pk=lane.pk).update(holds=HOLDS, held_since=database_now())


def states(*rows: Transaction) -> list[tuple[str, int | None]]:
    for row in rows:
        row.refresh_from_db()
    return [(row.status, row.nonce) for row in rows]


def next_nonce(lane: Lane) -> int | None:
    return Lane.objects.get(pk=lane.pk).next_nonce


def test_nonces_bytes_and_status_are_committed_together(lane: Lane) -> None:
    rows = [factories.transaction(lane) for _ in range(2)]

    attempts = commit(lane, Result([send(row, nonce) for nonce, row in enumerate(rows)]))

    assert states(*rows) == [("sent", 0), ("sent", 1)]
    assert [(each.transaction_id, each.nonce, bytes(each.raw)) for each in attempts] == [
        (rows[0].pk, 0, b"\x00\x00"),
        (rows[1].pk, 1, b"\x01\x00"),
    ]
    assert ([row.last_attempt for row in rows], next_nonce(lane)) == (attempts, 2)


@pytest.mark.parametrize("is_expired", [False, True])
def test_a_row_that_changed_or_expired_meanwhile_leaves_no_gap(lane: Lane, is_expired: bool) -> None:
    changes: list[dict[str, Any]] = [{}, {"valid_until": database_now()} if is_expired else {}, {}]
    rows = [factories.transaction(lane, **each) for each in changes]
    if not is_expired:
        change(rows[1])

    attempts = commit(lane, Result([send(row, nonce) for nonce, row in enumerate(rows)]))

    assert states(*rows) == [("sent", 0), ("pending", None), ("pending", None)]
    assert ([each.nonce for each in attempts], next_nonce(lane)) == ([0], 1)


@pytest.mark.parametrize("moved_to", [1, 5, 0])
def test_nonces_that_are_not_the_next_ones_or_of_another_server_are_dropped(
    lane: Lane, monkeypatch: pytest.MonkeyPatch, moved_to: int
) -> None:
    rows = [factories.transaction(lane) for _ in range(2)]
    identity = "" if moved_to else "the server before"
    Lane.objects.filter(pk=lane.pk).update(next_nonce=moved_to, database_identity=identity)
    monkeypatch.setattr("transactions.settlement.nonces.holds.database_identity", lambda: "the server now")

    assert commit(lane, Result([send(row, nonce) for nonce, row in enumerate(rows)])) == []

    assert (states(*rows), next_nonce(lane)) == ([("pending", None)] * 2, moved_to)


def test_a_lane_that_was_held_meanwhile_gives_no_nonce_and_closes_nothing(lane: Lane) -> None:
    flying, sending, expired, failed = in_flight(lane), *(factories.transaction(lane) for _ in range(3))
    hold(lane)
    result = Result(
        [bump(flying), send(sending, 1)],
        [Closing(expired, Cause.EXPIRED, "late"), Closing(failed, Cause.REFUSED, "never")],
    )

    (attempt,) = commit(lane, result)

    assert states(flying, sending, expired, failed) == [("sent", 0), *[("pending", None)] * 3]
    assert (attempt.transaction_id, attempt.number, next_nonce(lane)) == (flying.pk, 2, 1)


@pytest.mark.parametrize("lease", [None, uuid.UUID(int=1)], ids=["released", "of another worker"])
def test_without_the_lease_nothing_is_written(lane: Lane, lease: uuid.UUID | None) -> None:
    flying, row, closed = in_flight(lane), factories.transaction(lane), factories.transaction(lane)
    Lane.objects.filter(pk=lane.pk).update(lease=lease)

    with pytest.raises(LeaseLost):
        commit(lane, Result([bump(flying), send(row, 1)], [Closing(closed, Cause.REFUSED, "never")]))

    assert states(flying, row, closed) == [("sent", 0), ("pending", None), ("pending", None)]
    assert (Attempt.objects.count(), next_nonce(lane)) == (1, 1)


def test_rows_that_changed_meanwhile_are_neither_closed_nor_postponed_nor_bumped(lane: Lane) -> None:
    flying, closed, waiting = in_flight(lane), factories.transaction(lane), factories.transaction(lane)
    for row in (flying, closed, waiting):
        change(row)

    closings = [Closing(closed, Cause.REFUSED, "never")]
    assert commit(lane, Result([bump(flying)], closings, [Wait(waiting, "later", 60)])) == []

    assert states(flying, closed, waiting) == [("sent", 0), ("pending", None), ("pending", None)]
    assert (waiting.tries, waiting.status_reason, Attempt.objects.count()) == (0, "", 1)


def test_a_nonce_belongs_to_one_row_and_a_hash_to_one_attempt_whatever_the_code_does(lane: Lane) -> None:
    in_flight(lane)
    with pytest.raises(IntegrityError), transaction.atomic():
        factories.transaction(lane, status=Status.SENT, nonce=0)
    rows = [factories.transaction(lane, status=Status.SENT, nonce=nonce) for nonce in (1, 2)]
    factories.attempt(rows[0], hash="0x1")
    with pytest.raises(IntegrityError), transaction.atomic():
        factories.attempt(rows[1], hash="0x1")


@pytest.mark.parametrize("outcome", Outcome)
def test_only_what_a_node_has_is_submitted(lane: Lane, outcome: Outcome) -> None:
    row = in_flight(lane)
    assert row.last_attempt is not None

    write_broadcasts(lane, [Sent(row.last_attempt, Broadcast(outcome, ""))])

    is_taken = outcome in {Outcome.ACCEPTED, Outcome.KNOWN}
    assert states(row) == [("submitted" if is_taken else "sent", 0)]
    row.last_attempt.refresh_from_db()
    assert (row.last_attempt.outcome, row.last_attempt.broadcasts) == (outcome, 1)
    assert (row.last_attempt.accepted_at is not None, row.status_reason) == (is_taken, REASONS[outcome])
    # Only a refusal by all nodes closes the nonce.
    assert row.requested_action == ("close" if outcome == Outcome.REFUSED else "")


def test_the_outcome_of_an_older_attempt_does_not_change_the_row(lane: Lane) -> None:
    row = in_flight(lane)
    older = row.last_attempt
    assert older is not None
    factories.attempt(row, raw=b"newer")

    write_broadcasts(lane, [Sent(older, Broadcast(Outcome.REFUSED, "intrinsic gas too low"))])

    assert states(row) == [("sent", 0)]
    assert (row.requested_action, row.status_reason) == ("", "")


def test_broadcasts_are_counted_with_their_times_also_those_of_another_worker_meanwhile(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = in_flight(lane)
    attempt: Any = row.last_attempt
    for outcome in (Outcome.UNKNOWN, Outcome.ACCEPTED, Outcome.UNKNOWN):
        write_broadcasts(lane, [Sent(attempt, Broadcast(outcome, ""))])
    attempt.refresh_from_db()
    assert (attempt.broadcasts, attempt.outcome) == (3, "unknown")
    assert attempt.first_broadcast_at <= attempt.accepted_at <= attempt.last_broadcast_at
    accepted_at = database_now() - timedelta(seconds=5)

    def lock(*args: Any) -> list[Transaction]:
        # While this one waits for the lock, whose statement has read the attempt already.
        found = lock_by_key(*args)
        Attempt.objects.filter(pk=attempt.pk).update(broadcasts=7, accepted_at=accepted_at)
        return found

    monkeypatch.setattr(outcomes, "lock_by_key", lock)
    write_broadcasts(lane, [Sent(attempt, Broadcast(Outcome.UNKNOWN, ""))])
    attempt.refresh_from_db()
    assert (attempt.broadcasts, attempt.accepted_at) == (8, accepted_at)


@pytest.mark.django_db(transaction=True)
def test_outcomes_are_written_while_a_broadcast_is_requested(lane: Lane) -> None:
    """Both lock the row before its attempt: otherwise each could wait for the other."""
    row = in_flight(lane)
    assert row.last_attempt is not None
    sent, failures = [Sent(row.last_attempt, Broadcast(Outcome.ACCEPTED, ""))], []

    def write() -> None:
        try:
            write_broadcasts(lane, sent)
        except DatabaseError as error:
            failures.append(error)
        finally:
            connections.close_all()

    thread = Thread(target=write)
    with transaction.atomic():
        Transaction.objects.select_for_update(no_key=True).get(pk=row.pk)
        thread.start()
        wait_until(waits_for_a_lock)
        actions.resend(row.pk, by="staff")
    thread.join()
    assert not failures
    assert states(row) == [("submitted", 0)]


@pytest.mark.parametrize(
    ("purpose", "outcome", "action"),
    [("replace", Outcome.REFUSED, "close"), ("replace", Outcome.UNDERPRICED, ""), ("bump", Outcome.REFUSED, "")],
)
def test_a_replacement_that_all_nodes_refuse_closes_the_nonce(
    lane: Lane, purpose: str, outcome: Outcome, action: str
) -> None:
    """Only the newest payload is broadcast again: the one before it may be in no mempool any more."""
    row = in_flight(lane)
    newest = factories.attempt(row, raw=b"newer", purpose=purpose)
    Transaction.objects.update(status=Status.SUBMITTED)

    write_broadcasts(lane, [Sent(newest, Broadcast(outcome, ""))])

    assert states(row) == [("submitted", 0)]
    assert row.requested_action == action


@pytest.mark.parametrize(
    ("requested", "purpose", "left"),
    [
        ("replace", "replace", ""),
        ("speed_up", "bump", ""),
        ("cancel", "cancel", "cancel"),
    ],
)
def test_an_action_ends_with_the_commit_of_its_attempt(lane: Lane, requested: str, purpose: str, left: str) -> None:
    """Only a no-op says until it is mined why it was signed."""
    row = in_flight(lane)
    row.requested_action, row.payload_version = requested, 2
    row.save()

    commit(lane, Result([NewAttempt(row, Attempt.Purpose(purpose), signed(0, 7), 42_000)]))

    row.refresh_from_db()
    assert row.last_attempt is not None
    newest = row.last_attempt
    assert (row.requested_action, newest.purpose, newest.payload_version) == (left, purpose, 2)


def test_an_attempt_that_was_planned_before_a_request_is_not_committed(lane: Lane) -> None:
    row = in_flight(lane)
    actions.cancel(row.pk, by="tests")

    assert commit(lane, Result([bump(row)])) == []
