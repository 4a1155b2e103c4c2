"""The overview's card of webhooks."""

from __future__ import annotations

from django.db.models import Count
from django.http import HttpRequest
from django.urls import reverse

from notifications.delivery import counts
from notifications.filters import TARGET_STATES
from notifications.models import Notification
from relayer_service.admin.dashboard import Card, alarm


def webhooks(request: HttpRequest) -> Card | None:
    """Return the overview's card of what is in flight, and of what does not arrive."""
    if not request.user.has_perms(["notifications.view_notification", "notifications.view_delivery"]):
        return None
    targets = Notification.objects.aggregate(
        **{state: Count("pk", filter=TARGET_STATES[state]) for state in ("failing", "gone")}
    )
    rows = [
        ["Pending", f"{counts.pending().count():,}"],
        ["Failed in the last day", alarm(counts.failed_in_a_day().count())],
        ["Targets that fail", alarm(targets["failing"])],
        ["Targets that are gone", alarm(targets["gone"])],
    ]
    return Card("Webhooks", rows, url=reverse("admin:notifications_delivery_changelist"))
