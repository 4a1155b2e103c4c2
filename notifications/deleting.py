"""Deleting notifications: what blocks it, and the log that goes with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.db.models import Exists, OuterRef

from notifications.delivery.retention import delete_finished
from notifications.models import Delivery, Notification


def blockers(notifications: Iterable[Notification]) -> Iterator[str]:
    """Yield what blocks the deletion of notifications, in any app; finished deliveries do not."""
    chosen = Notification.objects.filter(pk__in=[notification.pk for notification in notifications])
    for relation in Notification._meta.related_objects:
        model = relation.related_model
        rows = model._base_manager.filter(**{relation.field.name: OuterRef("pk")})
        name, hint = str(model._meta.verbose_name_plural), "point them elsewhere first"
        if model is Delivery:
            # What is pending is due, and what is due has an index of its own.
            rows = rows.filter(due_at__isnull=False)
            name, hint = "pending deliveries", "they have to arrive or fail first"
        for notification in chosen.filter(Exists(rows)):
            yield f"{name} of {notification}: {hint}"


def delete_logs(notifications: Iterable[Notification]) -> None:
    """Delete the deliveries of notifications, unless the deletion of one is blocked."""
    if not any(blockers(notifications)):
        for notification in notifications:
            delete_finished(notification.deliveries.all())
