"""Test events: whether a webhook arrives."""

from __future__ import annotations

from django.db import transaction

from notifications.emitting import emit
from notifications.events import NOTIFICATION_TEST, NotificationData
from notifications.models import Delivery, Notification
from relayer_service.audit.recording import acted, changed, record


def send_test_event(notification: Notification) -> Delivery | None:
    """Send a test event, also to a target that is gone, as staff ask for it; return None for one that is disabled."""
    if not notification.enabled:
        return None
    with transaction.atomic():
        sent = emit(NOTIFICATION_TEST, notification, NotificationData(notification_id=notification.identifier))
        text = f"Sent a test event, {sent}."
        gone = Notification.objects.filter(pk=notification.pk, gone_at__isnull=False)
        if gone.update(gone_at=None):
            record([changed(notification, {"gone_at": notification.gone_at}, {"gone_at": None}, text)])
        else:
            record([acted(notification, text)])
    return sent
