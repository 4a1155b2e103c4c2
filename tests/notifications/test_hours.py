"""Deliveries counted by hour for the overview."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.test import Client
from pytest_django import Settings

from notifications.delivery import counts
from notifications.models import Delivery, DeliveryHour
from tests.notifications.clock import NOON, Clock
from tests.notifications.factories import create_notification
from tests.relayer_service.admin.overview_pages import chart, lines, part, rows

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
    counts.count_hours()
    assert counted() == [(0, "pending", 1), (1, "delivered", 2), (1, "failed", 1), (23, "delivered", 1)]
    Delivery.objects.filter(pk=pending.pk).update(state="delivered", due_at=None)
    clock.forward(60 * 60)
    counts.count_hours()
    assert counted() == [(0, "delivered", 1), (1, "delivered", 2), (1, "failed", 1), (23, "delivered", 1)]


def test_each_earlier_day_is_recounted_within_half_an_hour(clock: Clock) -> None:
    for day in (1, 2, 29, 30):
        emitted(day * 24 * 60)
    emitted(31 * 24 * 60)
    DeliveryHour.objects.create(hour=NOON - timedelta(days=31), state="failed", deliveries=7, counted_at=NOON)
    for _ in range(30):
        counts.count_hours()
        clock.forward(60)
    expected = [(24, "delivered", 1), (48, "delivered", 1), (29 * 24, "delivered", 1), (30 * 24, "delivered", 1)]
    assert counted() == expected


def test_days_whose_deliveries_may_be_deleted_keep_their_counts(clock: Clock, settings: Settings) -> None:
    settings.DELIVERIES_KEEP_DAYS = 3
    for day in (2, 3):
        DeliveryHour.objects.create(
            hour=NOON - timedelta(days=day), state="failed", deliveries=7, counted_at=NOON - timedelta(days=1)
        )
    for _ in range(30):
        counts.count_hours()
        clock.forward(60)
    assert counted() == [(72, "failed", 7)]


def test_the_overview_charts_longer_ranges(admin_client: Client, clock: Clock) -> None:
    for day in (1, 29):
        hour = NOON - timedelta(days=day)
        DeliveryHour.objects.create(hour=hour, state="failed", deliveries=1, counted_at=NOON)
    titles = {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}
    for key, failed in {"7d": [0] * 23 + [1, 0, 0, 0, 0], "30d": [1, *[0] * 27, 1, 0]}.items():
        page = admin_client.get("/admin/", {"range": key})
        (card,) = (each for each in page.context["cards"] if each.title == f"Deliveries of the last {titles[key]}")
        data = {each["label"]: each["data"] for each in json.loads(card.chart["data"])["datasets"]}
        assert data["Failed"] == failed
        assert [(each["title"], each["url"], each["is_chosen"]) for each in card.ranges] == [
            (title, f"?range={each}", each == key) for each, title in titles.items()
        ]
        assert 'href="?range=24h#deliveries"' in page.content.decode()
        counted = "Counted every minute, last at 2026-01-01 12:00:00 UTC."
        assert card.note == f"{counted} Days before the last one are counted every half hour."


def test_the_overview_charts_what_was_counted_and_says_when(admin_client: Client, clock: Clock) -> None:
    assert lines(part(admin_client, CARD)) == [CARD, "Not counted yet: the worker counts them every minute."]
    counts.count_hours()
    assert lines(part(admin_client, CARD)) == [CARD, "There were no deliveries."]
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
