"""The panel on a notification's page: its deliveries of the last 24 hours, 7 days or 30 days."""

from typing import Any

from django.conf import settings
from django.db.models import Count
from django.http import HttpRequest
from django.urls import reverse

from notifications.console.formatting import is_retried
from notifications.models import Delivery, Notification
from relayer_service.console.dates import exact
from relayer_service.console.overview.charts import RANGES, Period, bars, range_links, ranges_within
from relayer_service.console.panels import Panel
from relayer_service.database.truncation import DayOf, HourOf

COLOURS = {
    Delivery.State.DELIVERED: "var(--color-green-500)",
    Delivery.State.PENDING: "var(--color-blue-400)",
    Delivery.State.FAILED: "var(--color-red-500)",
}
# Bounds the time that the page of a webhook with millions of deliveries takes.
MAX_COUNTED = 100_000


class LastDeliveries(Panel):
    template = "admin/notifications/notification/recent_deliveries.html"

    def may_view(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("notifications.view_delivery"))

    def context(self, request: HttpRequest, notification: Notification) -> dict[str, Any]:
        deliveries = reverse("admin:notifications_delivery_changelist")
        kept = ranges_within(settings.DELIVERIES_KEEP_DAYS)
        period = Period.from_request(request, kept)
        return {
            "recent_deliveries": recent_deliveries(notification, period),
            "delivery_ranges": range_links(request, period.range, kept),
            "is_retried": is_retried(notification),
            "days_kept": settings.DELIVERIES_KEEP_DAYS if len(kept) < len(RANGES) else 0,
            "deliveries_url": f"{deliveries}?notification__sequence__exact={notification.pk}",
        }


def recent_deliveries(notification: Notification, period: Period) -> dict[str, Any]:
    """Return the title, the totals by state, and the chart of a period: two queries, from an index alone."""
    counts = {state: [0] * period.count for state in COLOURS}
    start = DayOf("created_at") if period.range.key == "30d" else HourOf("created_at")
    rows = Delivery.objects.filter(notification=notification, created_at__gte=period.start)
    newest = rows.order_by("-created_at").values_list("created_at", flat=True)
    not_counted = newest[MAX_COUNTED : MAX_COUNTED + 1].first()
    if not_counted:
        rows = rows.filter(created_at__gt=not_counted)
    for group in rows.order_by().values("state", start=start).annotate(rows=Count("*")):
        counts[group["state"]][period.position(group["start"])] += group["rows"]
    datasets = [bars(state.label, counts[state], colour) for state, colour in COLOURS.items()]
    return {
        "title": f"Deliveries of the last {period.range.title}",
        "totals": {state.label: sum(counts[state]) for state in COLOURS},
        "note": f"Only its newest {MAX_COUNTED:,} deliveries, since {exact(not_counted)}." if not_counted else "",
        **period.chart(datasets),
    }
