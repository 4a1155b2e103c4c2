"""What the admin tells of webhooks at a glance: the overview's card, and the chart of a notification."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.db.models import Count, Q
from django.db.models.functions import TruncHour
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from notifications.filters import TARGET_STATES
from notifications.models import Delivery, Notification
from relayer_service.admin.dashboard import Card, bar_chart, label

HOURS = 24
COLOURS = {
    Delivery.State.DELIVERED: "var(--color-green-500)",
    Delivery.State.PENDING: "var(--color-blue-400)",
    Delivery.State.FAILED: "var(--color-red-500)",
}


def may_view(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("notifications.view_notification"))


def may_change(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("notifications.change_notification"))


def may_view_deliveries(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("notifications.view_delivery"))


def webhooks(request: HttpRequest) -> Card | None:
    """Make the overview's card of what is on its way, and of what does not arrive."""
    if not may_view(request) or not may_view_deliveries(request):
        return None
    yesterday = timezone.now() - timedelta(days=1)
    # What was never sent, as its target is gone, has failed too.
    lately = Q(attempted_at__gte=yesterday) | Q(attempted_at=None, created_at__gte=yesterday)
    failed = Delivery.objects.filter(lately, state=Delivery.State.FAILED).count()
    targets = Notification.objects.aggregate(
        **{state: Count("pk", filter=TARGET_STATES[state]) for state in ("failing", "gone")}
    )
    rows = [
        ["Pending", str(Delivery.objects.filter(state=Delivery.State.PENDING).count())],
        ["Failed in the last day", alarm(failed)],
        ["Targets that fail", alarm(targets["failing"])],
        ["Targets that are gone", alarm(targets["gone"])],
    ]
    return Card("Webhooks", rows, url=reverse("admin:notifications_delivery_changelist"))


def alarm(count: int) -> str:
    return label(str(count), "danger") if count else "0"


def last_day(notification: Notification) -> dict[str, Any]:
    """Give the totals by state of what was emitted in the last day, and the chart of it by hour."""
    first = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    counts = {state: [0] * HOURS for state in COLOURS}
    groups = Delivery.objects.filter(notification=notification, created_at__gte=first).order_by()
    for group in groups.values("state", hour=TruncHour("created_at")).annotate(rows=Count("pk")):
        position = round((group["hour"] - first) / timedelta(hours=1))
        # What was emitted since the hour turned belongs to the last bar.
        counts[group["state"]][min(position, HOURS - 1)] += group["rows"]
    data = {
        "labels": [f"{first + timedelta(hours=hour):%H:%M}" for hour in range(HOURS)],
        "datasets": [
            {"label": state.label, "data": counts[state], "backgroundColor": colour}
            for state, colour in COLOURS.items()
        ],
    }
    return {
        "totals": {state.label: sum(counts[state]) for state in COLOURS},
        "data": json.dumps(data),
        "options": json.dumps(bar_chart()),
    }
