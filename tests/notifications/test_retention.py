"""How long deliveries are kept."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from notifications import tasks
from notifications.delivery import deleting
from notifications.models import Attempt, Delivery
from notifications.replay import replay
from tests.concurrency import PATIENCE_SECONDS, in_threads
from tests.notifications.clock import NOON, Clock
from tests.notifications.factories import create_notification, emit_test

OLD, YOUNG = NOON - timedelta(days=90, seconds=1), NOON - timedelta(days=90) + timedelta(seconds=1)


@pytest.fixture(autouse=True)
def quick(clock: Clock, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DELIVERIES_KEEP_DAYS = 90
    monkeypatch.setattr(deleting, "PAUSE_SECONDS", 0)


def old_deliveries(count: int) -> None:
    """Create deliveries that arrived long ago, each with an attempt."""
    notification = create_notification()
    for _ in range(count):
        Attempt.objects.create(delivery=emit_test(notification), started_at=OLD, milliseconds=1)
    Delivery.objects.update(state="delivered", due_at=None, created_at=OLD, attempted_at=OLD)


@pytest.mark.django_db
def test_what_is_finished_is_kept_for_so_many_days_after_its_last_attempt(settings: Settings) -> None:
    cases: list[tuple[dict[str, object], bool]] = [
        ({}, False),
        ({"state": "failed"}, False),
        # What was never sent, as its target is gone.
        ({"state": "failed", "attempted_at": None}, False),
        ({"attempted_at": YOUNG}, True),
        ({"state": "failed", "attempted_at": None, "created_at": YOUNG}, True),
        ({"state": "pending", "due_at": NOON}, True),
    ]
    old_deliveries(len(cases))
    rows = list(Delivery.objects.order_by("pk"))
    for row, (changes, _) in zip(rows, cases, strict=True):
        Delivery.objects.filter(pk=row.pk).update(**changes)
    settings.DELIVERIES_KEEP_DAYS = 0
    deleting.prune()
    assert Delivery.objects.count() == len(cases)
    settings.DELIVERIES_KEEP_DAYS = 90
    tasks.prune_deliveries.call_local()
    kept = [row.pk for row, (_, is_kept) in zip(rows, cases, strict=True) if is_kept]
    assert sorted(Delivery.objects.values_list("pk", flat=True)) == kept
    assert sorted(Attempt.objects.values_list("delivery", flat=True)) == kept


@pytest.mark.django_db
def test_many_deliveries_are_deleted_a_batch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "BATCH_SIZE", 2)
    left = []
    monkeypatch.setattr(
        "notifications.delivery.deleting.time.sleep", lambda seconds: left.append(Delivery.objects.count())
    )
    old_deliveries(5)
    deleting.prune()
    assert left == [3, 1]
    assert (Delivery.objects.count(), Attempt.objects.count()) == (0, 0)


@pytest.mark.django_db(transaction=True)
def test_a_delivery_that_is_being_replayed_is_kept() -> None:
    old_deliveries(1)
    replayed, pruned = threading.Event(), threading.Event()

    def replayer() -> None:
        with transaction.atomic():
            replay(Delivery.objects.all())
            replayed.set()
            # SQLite has no locks of rows: there the other waits for this transaction.
            pruned.wait(PATIENCE_SECONDS if connection.vendor == "postgresql" else 0.1)

    def pruner() -> None:
        replayed.wait(PATIENCE_SECONDS)
        deleting.prune()
        pruned.set()

    in_threads(replayer, pruner)
    assert Delivery.objects.values_list("state", "attempts__started_at").get() == ("pending", OLD)
