"""Deliveries of the last day, counted by hour for the overview."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from notifications.delivery import counts
from notifications.models import Delivery, DeliveryHour
from tests.notifications.clock import NOON, Clock, clock
from tests.notifications.factories import create_notification
from tests.relayer_service.admin.overview_pages import chart, lines, part, rows

__all__ = ["clock"]

pytestmark = pytest.mark.django_db

CARD = "Deliveries of the last 24 hours"
NOTE = "Note on deliveries of the last 24 hours"


def emitted(minutes_ago: int, state: str = "delivered") -> Delivery:
    due_at = NOON if state == "pending" else None
    target = create_notification(identifier=f"hook-{minutes_ago}-{state}")
    return Delivery.objects.create(
        notification=target,
        event="relayer.paused",
        body=b"{}",
        state=state,
        due_at=due_at,
        created_at=NOON - timedelta(minutes=minutes_ago),
    )


def counted() -> list[tuple[int, str, int]]:
    """Return by hours before noon and state what was counted."""
    found = DeliveryHour.objects.filter(deliveries__gt=0).order_by("-hour", "state")
    return [((NOON - row.hour) // timedelta(hours=1), row.state, row.deliveries) for row in found]


def test_the_worker_counts_the_last_day_by_hour_and_state(clock: Clock) -> None:
    pending = emitted(0, "pending")
    emitted(1)
    emitted(60)
    emitted(59, "failed")
    emitted(23 * 60)
    emitted(23 * 60 + 1)
    counts.count_hours()
    assert counted() == [(0, "pending", 1), (1, "delivered", 2), (1, "failed", 1), (23, "delivered", 1)]
    Delivery.objects.filter(pk=pending.pk).update(state="delivered", due_at=None)
    clock.forward(60 * 60)
    counts.count_hours()
    assert counted() == [(0, "delivered", 1), (1, "delivered", 2), (1, "failed", 1)]


def test_the_overview_charts_what_was_counted_and_says_when(admin_client: Client, clock: Clock) -> None:
    assert lines(part(admin_client, CARD)) == ["Not counted yet: the worker counts them every minute."]
    emitted(0, "pending")
    emitted(61, "failed")
    counts.count_hours()
    assert rows(admin_client, CARD) == [["Delivered", "0"], ["Pending", "1"], ["Failed", "1"]]
    assert chart(admin_client, CARD) == {
        "Delivered": [0] * 24,
        "Pending": [*[0] * 23, 1],
        "Failed": [*[0] * 21, 1, 0, 0],
    }
    assert part(admin_client, NOTE) == "Counted every minute, last at 2026-01-01 12:00:00 UTC."
