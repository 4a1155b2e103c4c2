"""Webhooks that need attention: targets that fail or are gone, and late deliveries."""

from typing import Any

from django.db.models import F, OuterRef, Subquery, Value
from django.db.models.functions import Coalesce, NullIf
from django.http import HttpRequest
from django.urls import reverse

from notifications.delivery import counts
from notifications.filters import TARGET_STATES
from notifications.models import Delivery, Notification
from relayer_service.admin.attention import (
    LATE,
    AttentionGroup,
    AttentionItem,
    AttentionSubject,
    counts_of,
    first_of,
    number_of,
    read_once,
)
from relayer_service.storage.clock import DatabaseNow

TITLES = {"failing": "Failing webhook targets", "gone": "Webhook targets that are gone"}
SINCE = {"failing": "failing_since", "gone": "gone_at"}
REASONS = {
    "failing": "Deliveries are failing. See the errors in the delivery log.",
    "gone": "It returned 410 Gone. To resume deliveries, change its URL or replay a delivery.",
}


def webhooks(request: HttpRequest) -> AttentionSubject | None:
    if not request.user.has_perm("notifications.view_notification"):
        return None
    found, rows = read_once(request, numbers), read_once(request, named)
    groups = [
        AttentionGroup(title, [item(name, target) for target in rows[name]], found[name], list_of(name), "danger")
        for name, title in TITLES.items()
        if rows[name]
    ]
    if found["late"] and request.user.has_perm("notifications.view_delivery"):
        page = f"{reverse('admin:notifications_delivery_changelist')}?state__exact=pending"
        reason = f"Due for more than two minutes: {found['late']:,}. Check that a worker is running."
        groups.append(AttentionGroup("Late deliveries", [AttentionItem("Deliveries", page, reason)], 1, page))
    return AttentionSubject("webhook targets", groups)


def numbers() -> dict[str, int]:
    targets = {name: Notification.objects.filter(TARGET_STATES[name]) for name in TITLES}
    # The deliveries of failing targets wait for their next attempt.
    working = Notification.objects.filter(TARGET_STATES["ok"]).order_by().values("pk")
    late = counts.pending().filter(due_at__lt=DatabaseNow() - LATE, notification__in=working)
    deliveries = {"pending": counts.pending(), "failed": counts.failed_in_a_day(), "late": late}
    return counts_of({name: number_of(rows) for name, rows in {**targets, **deliveries}.items()})


def named() -> dict[str, list[Any]]:
    """Return the first failing and gone targets, each with the time at which that began and its last error."""
    deliveries = Delivery.objects.filter(notification=OuterRef("pk"))
    # An attempted delivery waits longer than a new one; if none waits, the newest has failed.
    waiting = deliveries.filter(due_at__isnull=False).order_by("-due_at")
    newest = deliveries.order_by("-created_at")
    errors = [NullIf(Subquery(rows.values("error")[:1]), Value("")) for rows in (waiting, newest)]
    last_errors = {"failing": Coalesce(*errors, Value("")), "gone": Value("")}
    shown = Notification.objects.only("identifier")
    return first_of(
        {name: shown.annotate(since=F(SINCE[name]), last_error=last_errors[name]) for name in TITLES}, TARGET_STATES
    )


def item(name: str, target: Any) -> AttentionItem:
    page = reverse("admin:notifications_notification_change", args=[target.pk])
    return AttentionItem(target.identifier, page, target.last_error or REASONS[name], target.since)


def list_of(name: str) -> str:
    return f"{reverse('admin:notifications_notification_changelist')}?state={name}"
