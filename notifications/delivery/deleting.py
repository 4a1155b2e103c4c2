"""Deleting deliveries: when their retention ends, and with their notification."""

import time
from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from notifications.models import Delivery, Notification
from relayer_service.database.clock import DatabaseNow

BATCH_SIZE = 500
# Between two batches: on SQLite others cannot write while one is deleted.
PAUSE_SECONDS = 0.01


def prune() -> None:
    """Delete finished deliveries whose last attempt, or creation if there was none, is DELIVERIES_KEEP_DAYS ago.

    The index on `created_at` finds them: few that are so old were attempted since.
    """
    if settings.DELIVERIES_KEEP_DAYS:
        oldest = DatabaseNow() - timedelta(days=settings.DELIVERIES_KEEP_DAYS)
        not_tried_since = Q(attempted_at__lt=oldest) | Q(attempted_at=None)
        delete_finished(Delivery.objects.filter(not_tried_since, created_at__lt=oldest))


def delete_finished(deliveries: QuerySet[Delivery]) -> None:
    """Delete the deliveries that are not pending, oldest first, each batch in its own transaction."""
    finished = deliveries.exclude(state=Delivery.State.PENDING).order_by("created_at")
    while True:
        with transaction.atomic():
            # Locked against a concurrent replay; rows that are being replayed are skipped.
            batch = list(finished.select_for_update(skip_locked=True).values_list("pk", flat=True)[:BATCH_SIZE])
            Delivery.objects.filter(pk__in=batch).only("pk").delete()
        if len(batch) < BATCH_SIZE:
            return
        time.sleep(PAUSE_SECONDS)


def is_in_use(notifications: Sequence[Notification]) -> bool:
    """Return whether rows other than deliveries refer to the notifications, which blocks their deletion."""
    relations = [each for each in Notification._meta.related_objects if each.related_model is not Delivery]
    return any(
        each.related_model._base_manager.filter(**{f"{each.field.name}__in": notifications}).exists()
        for each in relations
    )


def delete_logs(notifications: Sequence[Notification]) -> None:
    """Delete the finished deliveries of notifications in batches, unless their deletion is blocked."""
    if not is_in_use(notifications):
        for notification in notifications:
            delete_finished(notification.deliveries.all())


def drop_deliveries(notification: Notification) -> str:
    """Delete all deliveries of a notification that is about to be deleted; return a text about the pending ones.

    The caller holds the lock of its row, which the sender needs to write an outcome or to claim a delivery.
    """
    # Only pending deliveries have a `due_at`, which is indexed.
    pending = notification.deliveries.filter(due_at__isnull=False).count()
    notification.deliveries.only("pk").delete()
    if not pending:
        return ""
    return "1 pending delivery was dropped." if pending == 1 else f"{pending:,} pending deliveries were dropped."
