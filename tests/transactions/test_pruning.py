"""Old transactions are deleted with their attempts and time lines; what a lane still needs is kept."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from relayer_service.database.clock import database_now
from spending.models import SpendingLimit, SpendingPolicy
from tests.concurrency import PATIENCE_SECONDS, wait_until, waits_for_a_lock
from tests.relayers import factories as relayers
from tests.transactions import factories
from tests.transactions.limits import limit_relayer, policy
from tokens.models import AccessToken
from transactions import tasks
from transactions.limits import windows
from transactions.models import Attempt, Charge, Lane, Status, StatusChange, Transaction
from transactions.repair import pruning

pytestmark = [pytest.mark.django_db, pytest.mark.both_engines]


@pytest.fixture
def lane(settings: Any) -> Lane:
    settings.TRANSACTIONS_KEEP_DAYS = 30
    return factories.lane(relayers.relayer(), next_nonce=10, final_nonce=10)


def days_ago(days: float) -> datetime:
    return database_now() - timedelta(days=days)


def final(lane: Lane, nonce: int | None, days: float, **changes: Any) -> Transaction:
    """Create a transaction that became final so many days ago."""
    values = {"status": Status.EXPIRED, "nonce": nonce, "finished_at": days_ago(days)} | changes
    row = factories.transaction(lane, identifier=f"tx-{nonce}" if nonce is not None else "none", **values)
    if nonce is not None:
        row.mined_attempt = attempt = factories.attempt(row)
        row.save()
        StatusChange.objects.create(
            transaction=row, version=2, to_status=row.status, at=days_ago(days), attempt=attempt
        )
    return row


def left() -> list[str]:
    return list(Transaction.objects.order_by("pk").values_list("identifier", flat=True))


def test_expired_rows_go_with_their_attempts_and_time_line(lane: Lane, settings: Any) -> None:
    final(lane, None, 31)
    limit = SpendingLimit.objects.create(policy=policy(), name="value")
    Charge.objects.create(transaction=final(lane, 0, 31), limit=limit, hour=1, amount_text="1", reserved_text="1")
    # A nonce above a kept one is kept, as an open row is, however old.
    final(lane, 1, 29)
    final(lane, 2, 31)
    factories.transaction(lane, identifier="pending", created_at=days_ago(31))
    settings.TRANSACTIONS_KEEP_DAYS = 0
    pruning.prune()
    assert left() == ["none", "tx-0", "tx-1", "tx-2", "pending"]
    settings.TRANSACTIONS_KEEP_DAYS = 30
    with CaptureQueriesContext(connection) as queries:
        pruning.prune()
    assert left() == ["tx-1", "tx-2", "pending"]
    assert [attempt.transaction.identifier for attempt in Attempt.objects.order_by("pk")] == ["tx-1", "tx-2"]
    assert [change.transaction.identifier for change in StatusChange.objects.order_by("pk")] == ["tx-1", "tx-2"]
    assert not Charge.objects.exists()
    # From here on, every nonce must have its row.
    assert Lane.objects.get().first_nonce == 1
    # No table is read through: the columns of attempts have neither a constraint nor an index.
    statements = [query["sql"] for query in queries]
    assert not [sql for sql in statements if 'attempt_id" IN' in sql]
    # Rows are chosen before the lane is locked.
    depth, depths = 0, []
    for sql in statements:
        depth += sql.startswith(("SAVEPOINT", "BEGIN")) - sql.startswith(("RELEASE", "COMMIT"))
        if sql.startswith("SELECT") and '"finished_at" <' in sql:
            depths.append(depth)
    assert set(depths) == {0}


@pytest.mark.parametrize("final_nonce", [1, None])
def test_a_nonce_that_is_not_final_on_the_chain_is_kept(lane: Lane, final_nonce: int | None) -> None:
    Lane.objects.update(final_nonce=final_nonce)
    rows = [final(lane, nonce, 31) for nonce in range(3)]
    pruning.prune()
    assert left() == (["tx-1", "tx-2"] if final_nonce else ["tx-0", "tx-1", "tx-2"])
    # What another worker has deleted lowers no first nonce.
    Lane.objects.update(first_nonce=5)
    pruning._delete(lane.pk, rows[1:2])
    assert Lane.objects.get().first_nonce == 5
    # Those of an earlier epoch are deleted whatever they are.
    Lane.objects.update(epoch=1, final_nonce=None, first_nonce=0)
    pruning.prune()
    assert (left(), Lane.objects.get().first_nonce) == ([], 0)


def test_the_policy_of_a_relayer_token_or_open_transaction_stays(lane: Lane, user: User) -> None:
    assert lane.relayer is not None
    assert kept(limit_relayer(lane.relayer, max_value="1"))
    spending = policy(max_value="1")
    token = AccessToken.objects.create(name="shop", user=user, spending=spending)
    row = factories.transaction(lane, token_spending=spending)
    assert kept(spending)
    token.delete()
    # Otherwise it would fail: its rules are read when it gets its nonce.
    assert kept(spending)
    Transaction.objects.filter(pk=row.pk).update(**factories.final("expired"))
    assert not kept(spending)


def test_what_a_waiting_request_may_repeat_is_kept(lane: Lane) -> None:
    found = final(lane, 1, 31, kind="external", unclaimed_until=days_ago(30.5))
    final(lane, 0, 31)
    waiting = factories.transaction(lane, identifier="waiting", created_at=days_ago(30.6))
    pruning.prune()
    assert left() == [found.identifier, "waiting"]
    waiting.delete()
    pruning.prune()
    assert left() == []


@pytest.mark.parametrize(("seconds", "expected"), [(0.001, [2, 4, 8, 2]), (0.04, [2, *14 * [1]])])
def test_a_lane_that_is_locked_for_long_loses_fewer_rows_at_once(
    lane: Lane, monkeypatch: pytest.MonkeyPatch, seconds: float, expected: list[int]
) -> None:
    delete = pruning._delete
    sizes: list[int] = []
    pauses: list[float] = []

    def delete_in_seconds(key: int, rows: Sequence[Transaction]) -> float:
        sizes.append(len(rows))
        delete(key, rows)
        return seconds

    monkeypatch.setattr(pruning, "BATCH_SIZE", 100)
    monkeypatch.setattr(pruning, "_delete", delete_in_seconds)
    monkeypatch.setattr("transactions.repair.pruning.time.sleep", pauses.append)
    Lane.objects.update(final_nonce=16)
    for nonce in range(16):
        final(lane, nonce, 31)
    pruning.prune()
    assert (left(), Lane.objects.get().first_nonce, sizes, len(pauses)) == ([], 16, expected, len(expected))


@pytest.mark.postgresql
def test_a_lane_is_locked_last_and_does_not_wait_for_the_disk(lane: Lane) -> None:
    final(lane, 0, 31)
    with CaptureQueriesContext(connection) as queries:
        pruning.prune()
    statements = [query["sql"] for query in queries]
    first = statements.index("SET LOCAL synchronous_commit = off")
    checked = statements.index("SET CONSTRAINTS ALL IMMEDIATE")
    assert {sql.split()[0] for sql in statements[first + 2 : checked]} == {"SELECT", "DELETE"}
    assert [" UPDATE" in f" {sql}" for sql in statements[first:checked]] == [False] * (checked - first)
    assert "FOR NO KEY UPDATE" in statements[checked + 1]
    assert statements[checked + 2].startswith("UPDATE")


@pytest.mark.django_db(transaction=True)
@pytest.mark.postgresql
def test_who_has_the_lane_and_waits_for_an_old_row_gets_it(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests lock the lane first: together with the rows that pruning has deleted, that would be a deadlock."""
    row = final(lane, 0, 31)
    pauses: list[float] = []
    locked, deleted, done = threading.Event(), threading.Event(), threading.Event()

    def cancel() -> None:
        with transaction.atomic():
            Lane.objects.select_for_update().get(pk=lane.pk)
            locked.set()
            deleted.wait(PATIENCE_SECONDS)
            assert Transaction.objects.select_for_update().get(pk=row.pk).identifier == "tx-0"
        done.set()
        connection.close()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        done.wait(PATIENCE_SECONDS)

    def execute(statement: str) -> None:
        run(statement)
        if statement.startswith("SET CONSTRAINTS"):
            deleted.set()

    run = pruning._execute
    monkeypatch.setattr(pruning, "_execute", execute)
    monkeypatch.setattr("transactions.repair.pruning.time.sleep", pause)
    requester = threading.Thread(target=cancel)
    requester.start()
    locked.wait(PATIENCE_SECONDS)
    pruning.prune()
    requester.join()
    assert (left(), pauses[0]) == ([], 1)


# Spending policies that no relayer and no token has.

HOUR = windows.hour_of(datetime.now(UTC))


def counted(policy: SpendingPolicy, row: Transaction, hour: int, amount: str = "5") -> SpendingLimit:
    """Let a transaction count on a limit of a policy, in this hour."""
    hours = {} if amount == "0" else {str(hour): amount}
    limit = SpendingLimit.objects.create(policy=policy, name="value", hours=hours)
    Charge.objects.create(transaction=row, limit=limit, hour=hour, amount_text=amount, reserved_text="5")
    return limit


def kept(policy: SpendingPolicy) -> bool:
    pruning.prune_policies()
    return SpendingPolicy.objects.filter(pk=policy.pk).exists()


def test_a_policy_without_a_holder_goes_with_its_limits_and_old_charges(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "BATCH_SIZE", 1)
    monkeypatch.setattr(pruning, "PAUSE_SECONDS", 0)
    orphan = policy(max_value_per_day="9")
    limit = counted(orphan, final(lane, 0, 2, token_spending=orphan), HOUR - 25)
    others = {"limit": limit, "hour": HOUR - 30, "amount_text": "1", "reserved_text": "1"}
    Charge.objects.create(transaction=final(lane, 1, 2), **others)
    Charge.objects.create(transaction=final(lane, 2, 2), **{**others, "hour": HOUR, "amount_text": "0"})
    tasks.prune_transactions.call_local()
    assert not SpendingPolicy.objects.exists()
    assert (SpendingLimit.objects.count(), Charge.objects.count(), len(left())) == (0, 0, 3)


@pytest.mark.parametrize("hour", [HOUR - 20, windows.OPEN_HOUR])
def test_a_policy_on_which_something_counts_stays(lane: Lane, hour: int) -> None:
    """Such as what another token has replaced, and is still in flight."""
    orphan = policy(max_value_per_day="9")
    counted(orphan, final(lane, 0, 0.5), hour)
    assert kept(orphan)
    assert Charge.objects.count() == 1


def test_what_is_counted_meanwhile_keeps_a_policy(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of a token that was deleted is accepted between the search and the lock."""
    orphan, delete = policy(max_value_per_day="9"), pruning._delete_policy

    def count_and_delete(key: int, hour: int) -> None:
        counted(orphan, final(lane, 0, 0), windows.OPEN_HOUR)
        delete(key, hour)

    monkeypatch.setattr(pruning, "_delete_policy", count_and_delete)
    assert kept(orphan)
    assert Charge.objects.count() == 1


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_a_policy_waits_for_a_request_that_counts_on_it(lane: Lane) -> None:
    orphan = policy(max_value_per_day="9")
    SpendingLimit.objects.create(policy=orphan, name="value")
    pruning_thread = threading.Thread(target=run_and_close, args=[pruning.prune_policies])
    with transaction.atomic():
        limit = SpendingLimit.objects.select_for_update(no_key=True).get(policy=orphan)
        pruning_thread.start()
        wait_until(waits_for_a_lock)
        limit.hours = {str(windows.OPEN_HOUR): "5"}
        limit.save()
    pruning_thread.join()
    assert SpendingPolicy.objects.filter(pk=orphan.pk).exists()


def run_and_close(work: Any) -> None:
    work()
    connection.close()
