"""What Prometheus reads of webhooks, without reading the log of deliveries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from notifications.delivery import counts
from notifications.delivery.creating import create_deliveries
from notifications.events import NOTIFICATION_TEST, NotificationData
from notifications.metrics import WebhookCollector
from notifications.models import Delivery, Notification
from relayer_service.observability import metrics
from tests.notifications.clock import NOON, Clock
from tests.notifications.factories import create_notification, emit_test
from tests.relayer_service.observability.test_metrics import samples

pytestmark = pytest.mark.django_db


def webhook_samples() -> dict[str, float]:
    found = samples(metrics.exposition().decode())
    webhooks = {name: value for name, value in found.items() if name.startswith("relayer_webhook_")}
    return {name: value for name, value in webhooks.items() if not name.startswith("relayer_webhook_attempt")}


def test_nothing_at_all_is_counted_as_zero() -> None:
    assert set(webhook_samples().values()) == {0}
    assert len(webhook_samples()) == 10


def test_targets_and_deliveries_are_counted(clock: Clock) -> None:
    names = ("ok", "failing", "gone", "disabled")
    targets = {name: create_notification(identifier=name) for name in names}
    clock.now = NOON - timedelta(seconds=200)
    emit_test(targets["disabled"])
    for seconds in (100, 40, 0):
        clock.now = NOON - timedelta(seconds=seconds)
        for target in targets.values():
            emit_test(target)
    Notification.objects.filter(identifier__in=["failing", "gone", "disabled"]).update(failing_since=NOON)
    Notification.objects.filter(identifier="gone").update(gone_at=NOON)
    Notification.objects.filter(identifier="disabled").update(enabled=False)
    disabled = Notification.objects.get(identifier="disabled")
    assert create_deliveries(NOTIFICATION_TEST, [disabled], NotificationData(notification_id="disabled")) == {}
    finished = targets["ok"].deliveries.order_by("id")
    # One is on its way until later, one was given up today, and one two days ago.
    finished.filter(pk=finished[0].pk).update(due_at=NOON + timedelta(seconds=5))
    gone = targets["gone"].deliveries.order_by("id")
    lately, long_ago = gone[1].pk, gone[2].pk
    failed = {"state": "failed", "due_at": None}
    Delivery.objects.filter(pk=lately).update(**failed, attempted_at=NOON - timedelta(hours=23))
    Delivery.objects.filter(pk=long_ago).update(
        **failed, attempted_at=NOON - timedelta(days=2), created_at=NOON - timedelta(days=3)
    )
    assert webhook_samples() == {
        "relayer_webhook_targets{state=ok}": 1,
        "relayer_webhook_targets{state=failing}": 1,
        "relayer_webhook_targets{state=gone}": 1,
        "relayer_webhook_targets{state=disabled}": 1,
        "relayer_webhook_deliveries_pending{held=no}": 7,
        "relayer_webhook_deliveries_pending{held=yes}": 4,
        "relayer_webhook_deliveries_failed_last_day{}": 1,
        "relayer_webhook_oldest_due_seconds{target=ok}": 40,
        "relayer_webhook_oldest_due_seconds{target=failing}": 100,
        "relayer_webhook_events_skipped_total{}": 1,
    }


def test_what_was_never_sent_fails_when_it_was_made(clock: Clock) -> None:
    emit_test(create_notification())
    Delivery.objects.update(state="failed", due_at=None, attempted_at=None)
    assert counts.failed_in_a_day().count() == 1
    clock.forward(24 * 60 * 60 + 1)
    assert counts.failed_in_a_day().count() == 0


def fill_log() -> None:
    now = timezone.now()
    target = create_notification()
    Delivery.objects.bulk_create(
        Delivery(notification=target, event="e", body=b"{}", state=state, attempted_at=now, created_at=now)
        for state in ("delivered", "failed")
        for _ in range(500)
    )
    for _ in range(5):
        emit_test(target)


def plan(queryset: QuerySet[Any]) -> str:
    """Return how the database finds the rows, with the values of the query bound as they are when it runs."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # The planner reads a small table whole even where it has an index for the query.
            cursor.execute("ANALYZE notifications_delivery")
            cursor.execute("SET LOCAL enable_seqscan = off")
    return queryset.explain()


def test_deliveries_are_counted_in_an_index_by_as_many_queries_as_few(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    fill_log()
    for queryset, indexes in [
        (counts.pending(), ("delivery_due", "due_at")),
        (counts.held(), ("delivery_due", "due_at")),
        (counts.failed_in_a_day(), ("delivery_failed",)),
        (counts.first_due(of_failing=False), ("delivery_due", "due_at")),
    ]:
        steps = [line for line in plan(queryset).splitlines() if "scan" in line.lower() or "SEARCH" in line]
        log = [step for step in steps if "delivery" in step]
        assert log
        for step in log:
            # Where PostgreSQL has found rows in an index it may read them in one go.
            assert "Bitmap Heap Scan" in step or any(index in step for index in indexes)
    with django_assert_num_queries(7):
        list(WebhookCollector().collect())
