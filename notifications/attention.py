"""Webhooks that need attention: targets that fail or are gone, and deliveries that nobody sends."""

from __future__ import annotations

from typing import Any

from django.db.models import F, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, NullIf
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from notifications.delivery import counts
from notifications.filters import TARGET_STATES
from notifications.models import Delivery, Notification
from relayer_service.admin.attention import LATE, Checked, Found, Kind, Line, counts_of, first_of, number_of, once

TITLES = {"failing": "Webhook targets that fail", "gone": "Webhook targets that are gone"}
SINCE = {"failing": "failing_since", "gone": "gone_at"}
REASONS = {
    "failing": "Attempts fail; the log of deliveries has their errors.",
    "gone": "It answered 410 Gone: nothing is sent to it until its URL is changed or a delivery is replayed.",
}


def webhooks(request: HttpRequest) -> Checked | None:
    if not request.user.has_perm("notifications.view_notification"):
        return None
    kinds = [
        Kind(TITLES[name], [line(name, target) for target in found.rows], found.total, list_of(name))
        for name, found in once(request, named).items()
        if found.total
    ]
    late = once(request, in_flight)["late"] if request.user.has_perm("notifications.view_delivery") else 0
    if late:
        page = f"{reverse('admin:notifications_delivery_changelist')}?state__exact=pending"
        waiting = Line("Deliveries", page, f"Due for more than two minutes, as no worker has sent them: {late:,}.")
        kinds.append(Kind("Deliveries that are late", [waiting], 1, page))
    return Checked("webhook targets", kinds)


def named() -> dict[str, Found]:
    """Return the first targets in each kind of trouble."""
    return first_of({name: in_trouble(name) for name in TITLES})


def in_flight() -> dict[str, int]:
    """Return how many deliveries are pending, failed lately, and are due for long though their targets work."""
    due = counts.pending().filter(due_at__lt=timezone.now() - LATE)
    late = due.filter(notification__in=Notification.objects.filter(TARGET_STATES["ok"]).order_by().values("pk"))
    rows = {"pending": counts.pending(), "failed": counts.failed_in_a_day(), "late": late}
    return counts_of({name: number_of(each) for name, each in rows.items()})


def in_trouble(name: str) -> QuerySet[Any]:
    """Return the targets in a kind of trouble, each with the time at which it began and the last error."""
    deliveries = Delivery.objects.filter(notification=OuterRef("pk"))
    # What was attempted waits longer for the next time than what was not; without any the newest has failed.
    waiting = deliveries.filter(due_at__isnull=False).order_by("-due_at")
    newest = deliveries.order_by("-created_at")
    errors = [NullIf(Subquery(rows.values("error")[:1]), Value("")) for rows in (waiting, newest)]
    targets = Notification.objects.filter(TARGET_STATES[name])
    return targets.annotate(since=F(SINCE[name]), last_error=Coalesce(*errors, Value("")))


def line(name: str, target: Any) -> Line:
    page = reverse("admin:notifications_notification_change", args=[target.pk])
    error = target.last_error if name == "failing" else ""
    return Line(target.identifier, page, error or REASONS[name], target.since)


def list_of(name: str) -> str:
    return f"{reverse('admin:notifications_notification_changelist')}?state={name}"
