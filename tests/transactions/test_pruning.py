"""Old transactions are deleted with their attempts and time lines; what a lane still needs is kept."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from relayer_service.storage.clock import database_now
from spending.models import SpendingLimit
from tests.relayers import factories as relayers
from tests.transactions import factories
from tests.transactions.limits import policy
from transactions import pruning
from transactions.models import Attempt, Charge, Lane, Status, StatusChange, Transaction

pytestmark = pytest.mark.django_db


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


def test_expired_rows_go_with_their_attempts_and_time_line(lane: Lane) -> None:
    final(lane, None, 31)
    limit = SpendingLimit.objects.create(policy=policy(), name="value")
    Charge.objects.create(transaction=final(lane, 0, 31), limit=limit, hour=1, amount_text="1", reserved_text="1")
    final(lane, 1, 29)
    pruning.prune()
    assert left() == ["tx-1"]
    assert [attempt.transaction.identifier for attempt in Attempt.objects.all()] == ["tx-1"]
    assert [change.transaction.identifier for change in StatusChange.objects.all()] == ["tx-1"]
    assert not Charge.objects.exists()
    # From here on, every nonce must have its row.
    assert Lane.objects.get().first_nonce == 1


def test_zero_days_keep_everything(lane: Lane, settings: Any) -> None:
    settings.TRANSACTIONS_KEEP_DAYS = 0
    final(lane, 0, 10_000)
    pruning.prune()
    assert left() == ["tx-0"]


def test_an_open_row_is_kept_however_old(lane: Lane) -> None:
    final(lane, 0, 31, status=Status.SUBMITTED, finished_at=None)
    final(lane, None, 31, status=Status.PENDING, finished_at=None)
    pruning.prune()
    assert left() == ["tx-0", "none"]


def test_a_nonce_above_a_kept_one_is_kept(lane: Lane) -> None:
    final(lane, 0, 31)
    final(lane, 1, 29)
    final(lane, 2, 31)
    pruning.prune()
    assert left() == ["tx-1", "tx-2"]
    assert Lane.objects.get().first_nonce == 1


@pytest.mark.parametrize("final_nonce", [1, None])
def test_a_nonce_that_is_not_final_on_the_chain_is_kept(lane: Lane, final_nonce: int | None) -> None:
    Lane.objects.update(final_nonce=final_nonce)
    for nonce in range(3):
        final(lane, nonce, 31)
    pruning.prune()
    assert left() == (["tx-1", "tx-2"] if final_nonce else ["tx-0", "tx-1", "tx-2"])


def test_nonces_of_an_earlier_epoch_are_deleted_whatever_they_are(lane: Lane) -> None:
    final(lane, 500, 31)
    Lane.objects.update(epoch=1, final_nonce=None)
    pruning.prune()
    assert left() == []
    assert Lane.objects.get().first_nonce == 0


def test_what_a_waiting_request_may_repeat_is_kept(lane: Lane) -> None:
    found = final(lane, 1, 31, kind="external", unclaimed_until=days_ago(30.5))
    final(lane, 0, 31)
    waiting = factories.transaction(lane, identifier="waiting", created_at=days_ago(30.6))
    pruning.prune()
    assert left() == [found.identifier, "waiting"]
    waiting.delete()
    pruning.prune()
    assert left() == []


def test_rows_are_chosen_before_the_lane_is_locked(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "BATCH_SIZE", 2)
    for nonce in range(5):
        final(lane, nonce, 31)
    with CaptureQueriesContext(connection) as queries:
        pruning.prune()
    depth, depths = 0, []
    for sql in (query["sql"] for query in queries):
        depth += sql.startswith(("SAVEPOINT", "BEGIN")) - sql.startswith(("RELEASE", "COMMIT"))
        if sql.startswith("SELECT") and '"finished_at" <' in sql:
            depths.append(depth)
    # The lanes, and three batches of nonces; none without a nonce.
    assert depths == 5 * [0]


def test_many_rows_are_deleted_in_batches(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(pruning, "BATCH_SIZE", 2)
    monkeypatch.setattr("transactions.pruning.time.sleep", pauses.append)
    for nonce in range(5):
        final(lane, nonce, 31)
    pruning.prune()
    assert (left(), Lane.objects.get().first_nonce, len(pauses)) == ([], 5, 2)
