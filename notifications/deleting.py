"""Deleting notifications: what blocks it, and the deliveries that go with them."""

from __future__ import annotations

from collections.abc import Sequence

from notifications.delivery.retention import delete_finished
from notifications.models import Delivery, Notification


def is_in_use(notifications: Sequence[Notification]) -> bool:
    """Return whether something of any app but their deliveries refers to notifications, which blocks the deletion."""
    relations = [each for each in Notification._meta.related_objects if each.related_model is not Delivery]
    return any(
        each.related_model._base_manager.filter(**{f"{each.field.name}__in": notifications}).exists()
        for each in relations
    )


def delete_logs(notifications: Sequence[Notification]) -> None:
    """Delete the finished deliveries of notifications, a batch at a time, unless a deletion is blocked."""
    if not is_in_use(notifications):
        for notification in notifications:
            delete_finished(notification.deliveries.all())


def drop_deliveries(notification: Notification) -> int:
    """Delete all deliveries of a notification that is about to be deleted; return how many were pending.

    The caller holds the lock of its row, which the sender needs to write an outcome or to claim a delivery.
    """
    # Only pending deliveries have a `due_at`, which is indexed.
    pending = notification.deliveries.filter(due_at__isnull=False).count()
    notification.deliveries.only("pk").delete()
    return pending


def dropped_text(count: int) -> str:
    """Return the text about dropped deliveries for answers, messages and the audit log, empty if there were none."""
    if not count:
        return ""
    return "1 pending delivery was dropped." if count == 1 else f"{count:,} pending deliveries were dropped."
