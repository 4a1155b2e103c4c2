"""The chart of deliveries on a webhook's page."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from notifications.console import panels
from notifications.models import Delivery, Notification
from relayer_service.console.overview.charts import RANGES, Period
from tests.notifications.admin_pages import staff_who_may
from tests.notifications.factories import create_notification, emit_test

pytestmark = pytest.mark.django_db


def change(notification: Notification) -> str:
    return f"/admin/notifications/notification/{notification.pk}/change/"


def test_the_page_of_a_notification_charts_its_last_day(admin_client: Client) -> None:
    notification, other = create_notification(), create_notification(identifier="other")
    now = timezone.now()
    hours = [("delivered", 0), ("delivered", 0), ("pending", 0), ("failed", 3), ("delivered", 23), ("failed", 24)]
    for state, hour in hours:
        row = emit_test(notification)
        due_at = now if state == "pending" else None
        Delivery.objects.filter(pk=row.pk).update(state=state, due_at=due_at, created_at=now - timedelta(hours=hour))
    emit_test(other)
    page = admin_client.get(change(notification))
    chart = page.context["recent_deliveries"]
    assert chart["totals"] == {"Delivered": 3, "Pending": 1, "Failed": 1}
    data = json.loads(chart["data"])
    assert [data["labels"][0], data["labels"][-1]] == [f"{now + timedelta(hours=1):%H}:00", f"{now:%H}:00"]
    assert {item["label"]: item["data"] for item in data["datasets"]} == {
        "Delivered": [1, *[0] * 22, 2],
        "Pending": [*[0] * 23, 1],
        "Failed": [*[0] * 20, 1, 0, 0, 0],
    }
    query = f"?notification__sequence__exact={notification.pk}"
    assert page.context["deliveries_url"] == f"/admin/notifications/delivery/{query}"
    assert "<script>" not in page.content.decode()


def test_the_chart_counts_a_limited_number_of_deliveries_in_two_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "MAX_COUNTED", 2)
    notification, now = create_notification(), timezone.now()
    since = f"{now - timedelta(hours=2):%Y-%m-%d %H:%M:%S} UTC"
    notes = []
    for hours in range(3):
        Delivery.objects.filter(pk=emit_test(notification).pk).update(created_at=now - timedelta(hours=hours))
        with CaptureQueriesContext(connection) as queries:
            chart = panels.recent_deliveries(notification, Period(RANGES["24h"]))
        assert len(queries) == 2
        notes.append(chart["note"])
    assert notes == ["", "", f"Only its newest 2 deliveries, since {since}."]
    assert chart["totals"]["Pending"] == 2


def test_the_page_charts_longer_ranges_that_deliveries_are_kept_for(
    client: Client, admin_client: Client, settings: Settings
) -> None:
    notification, now = create_notification(), timezone.now()
    for state, days in [("failed", 2), ("failed", 2), ("delivered", 0), ("pending", 20)]:
        due_at, created = now if state == "pending" else None, now - timedelta(days=days)
        Delivery.objects.filter(pk=emit_test(notification).pk).update(state=state, due_at=due_at, created_at=created)
    for key, totals in {"7d": [1, 0, 2], "30d": [1, 1, 2], "1y": [1, 0, 0]}.items():
        shown = admin_client.get(f"{change(notification)}?range={key}").context
        assert [*shown["recent_deliveries"]["totals"].values()] == totals
        assert [each["title"] for each in shown["delivery_ranges"]] == ["24 hours", "7 days", "30 days"]
        data = {each["label"]: each["data"] for each in json.loads(shown["recent_deliveries"]["data"])["datasets"]}
        assert {label: sum(each) for label, each in data.items()} == shown["recent_deliveries"]["totals"]
    settings.DELIVERIES_KEEP_DAYS = 7
    page = admin_client.get(f"{change(notification)}?range=30d")
    ranges = [(each["title"], each["is_chosen"]) for each in page.context["delivery_ranges"]]
    assert ranges == [("24 hours", True), ("7 days", False)]
    assert "Finished deliveries are kept for 7 days." in page.content.decode()
    viewer = staff_who_may(client, "view_notification")
    assert "Deliveries of the last 24 hours" not in viewer.get(change(notification)).content.decode()
