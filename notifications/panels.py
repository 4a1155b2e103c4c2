"""The panel on a notification's page: its deliveries of the last day."""

from typing import Any

from django.db.models import Count
from django.db.models.functions import TruncHour
from django.http import HttpRequest
from django.urls import reverse

from notifications.models import Delivery, Notification
from relayer_service.admin.charts import HOURS, LastDay, bars
from relayer_service.admin.panels import Panel

COLOURS = {
    Delivery.State.DELIVERED: "var(--color-green-500)",
    Delivery.State.PENDING: "var(--color-blue-400)",
    Delivery.State.FAILED: "var(--color-red-500)",
}


class LastDeliveries(Panel):
    template = "admin/notifications/notification/last_day.html"

    def may_view(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("notifications.view_delivery"))

    def context(self, request: HttpRequest, notification: Notification) -> dict[str, Any]:
        deliveries = reverse("admin:notifications_delivery_changelist")
        return {
            "last_day": last_day(notification),
            "deliveries_url": f"{deliveries}?notification__sequence__exact={notification.pk}",
        }


def last_day(notification: Notification) -> dict[str, Any]:
    """Return the totals of the last day by state, and its chart by hour."""
    day = LastDay()
    counts = {state: [0] * HOURS for state in COLOURS}
    groups = Delivery.objects.filter(notification=notification, created_at__gte=day.start).order_by()
    for group in groups.values("state", hour=TruncHour("created_at")).annotate(rows=Count("pk")):
        counts[group["state"]][day.position(group["hour"])] += group["rows"]
    datasets = [bars(state.label, counts[state], colour) for state, colour in COLOURS.items()]
    return {"totals": {state.label: sum(counts[state]) for state in COLOURS}, **day.chart(datasets)}
