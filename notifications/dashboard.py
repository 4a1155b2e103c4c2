"""The overview's card of webhooks."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Count, Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from notifications.filters import TARGET_STATES
from notifications.models import Delivery, Notification
from relayer_service.admin.dashboard import Card, alarm


def webhooks(request: HttpRequest) -> Card | None:
    """Return the overview's card of what is in flight, and of what does not arrive."""
    if not request.user.has_perms(["notifications.view_notification", "notifications.view_delivery"]):
        return None
    yesterday = timezone.now() - timedelta(days=1)
    # What was never sent, as its target is gone, has failed too.
    lately = Q(attempted_at__gte=yesterday) | Q(attempted_at=None, created_at__gte=yesterday)
    failed = Delivery.objects.filter(lately, state=Delivery.State.FAILED).count()
    targets = Notification.objects.aggregate(
        **{state: Count("pk", filter=TARGET_STATES[state]) for state in ("failing", "gone")}
    )
    rows = [
        ["Pending", f"{Delivery.objects.filter(state=Delivery.State.PENDING).count():,}"],
        ["Failed in the last day", alarm(failed)],
        ["Targets that fail", alarm(targets["failing"])],
        ["Targets that are gone", alarm(targets["gone"])],
    ]
    return Card("Webhooks", rows, url=reverse("admin:notifications_delivery_changelist"))
