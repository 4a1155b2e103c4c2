"""Deleting notifications: what blocks it, and the log that goes with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.db.models import Exists, OuterRef

from notifications.delivery.retention import delete_finished
from notifications.models import Delivery, Notification
from relayer_service.admin.references import in_use


def blockers(notifications: Iterable[Notification], *, linked: bool = False) -> Iterator[str]:
    """Yield what blocks the deletion of notifications, in any app; finished deliveries do not."""
    yield from in_use(notifications, linked=linked, without=[Delivery])
    # What is pending is due, and what is due has an index of its own.
    pending = Delivery.objects.filter(notification=OuterRef("pk"), due_at__isnull=False)
    chosen = Notification.objects.filter(pk__in=[notification.pk for notification in notifications])
    for notification in chosen.filter(Exists(pending)):
        yield f"{notification} has pending deliveries. To delete it, wait until they have arrived or failed."


def delete_logs(notifications: Iterable[Notification]) -> None:
    """Delete the deliveries of notifications, unless the deletion of one is blocked."""
    if not any(blockers(notifications)):
        for notification in notifications:
            delete_finished(notification.deliveries.all())
