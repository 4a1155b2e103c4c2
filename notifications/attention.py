"""Webhooks that need attention: failing ones by error, those that are gone, and late deliveries."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.db.models import Value
from django.http import HttpRequest
from django.urls import reverse

from notifications.delivery import counts
from notifications.filters import TARGET_STATES
from notifications.models import Delivery, Notification
from relayer_service.admin.attention import (
    LATE,
    UNKNOWN,
    AttentionSubject,
    Cause,
    Example,
    GroupedRows,
    counts_of,
    grouped,
    number_of,
    read_groups,
)
from relayer_service.storage.clock import DatabaseNow

FAILING, GONE, LATE_DELIVERIES = (f"webhooks.{name}" for name in ("failing", "gone", "late"))
REASONS = {
    FAILING: "Deliveries are failing. See the errors in the delivery log.",
    GONE: "Nothing is sent to it. To resume, change its URL or replay a delivery.",
}


def webhooks(request: HttpRequest) -> AttentionSubject | None:
    if not request.user.has_perm("notifications.view_notification"):
        return None
    may_view_late = request.user.has_perm("notifications.view_delivery")
    found = [rows for rows in read_groups(*queries()) if rows.kind != LATE_DELIVERIES or may_view_late]
    return AttentionSubject("webhooks", [cause(rows) for rows in found], examples)


def queries() -> list[Any]:
    failing, gone = (Notification.objects.filter(TARGET_STATES[name]) for name in ("failing", "gone"))
    # The deliveries of failing webhooks wait for their next attempt.
    working = Notification.objects.filter(TARGET_STATES["ok"]).order_by().values("pk")
    late = Delivery.objects.filter(due_at__lt=DatabaseNow() - LATE, notification__in=working)
    return [
        grouped(FAILING, failing, "failing_error", "failing_since", Value(1)),
        grouped(GONE, gone, Value(""), "gone_at", Value(1)),
        grouped(LATE_DELIVERIES, late, Value(""), "due_at", newest=UNKNOWN),
    ]


def cause(rows: GroupedRows) -> Cause:
    if rows.kind == LATE_DELIVERIES:
        page = f"{reverse('admin:notifications_delivery_changelist')}?state__exact=pending"
        return rows.cause("Late deliveries", "delivery", page, "Due for more than two minutes. Is a worker running?")
    if rows.kind == GONE:
        return rows.cause("Webhooks that returned 410", "webhook", list_of("gone"))
    if not rows.group:
        return rows.cause("Failing webhooks", "webhook", list_of("failing"))
    title = f"Failing webhooks: {rows.group.rstrip('.')}"
    return rows.cause(title, "webhook", list_of("failing", error=rows.group))


def numbers() -> dict[str, int]:
    targets = {name: Notification.objects.filter(TARGET_STATES[name]) for name in ("failing", "gone")}
    deliveries = {"pending": counts.pending(), "failed": counts.failed_in_a_day()}
    return counts_of({name: number_of(rows) for name, rows in {**targets, **deliveries}.items()})


def examples(causes: Sequence[Cause]) -> dict[str, Example]:
    rows = Notification.objects.only("identifier").in_bulk([each.first for each in causes if each.first])
    return {each.key: example(each.kind, rows[each.first]) for each in causes if each.first in rows}


def example(kind: str, target: Notification) -> Example:
    page = reverse("admin:notifications_notification_change", args=[target.pk])
    return Example(target.identifier, page, REASONS[kind])


def list_of(state: str, **query: str) -> str:
    return f"{reverse('admin:notifications_notification_changelist')}?{urlencode({'state': state} | query)}"
