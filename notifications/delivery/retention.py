"""Retention: finished deliveries are deleted with their attempts, a batch at a time."""

import time
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from notifications.models import Delivery
from relayer_service.storage.clock import DatabaseNow

BATCH_SIZE = 500
# Between two batches: on SQLite others cannot write while one is deleted.
PAUSE_SECONDS = 0.01


def prune() -> None:
    """Delete finished deliveries whose last attempt, or creation where there was none, is DELIVERIES_KEEP_DAYS ago.

    The index on `created_at` finds them: hardly any that is so old was attempted since.
    """
    if settings.DELIVERIES_KEEP_DAYS:
        oldest = DatabaseNow() - timedelta(days=settings.DELIVERIES_KEEP_DAYS)
        not_tried_since = Q(attempted_at__lt=oldest) | Q(attempted_at=None)
        delete_finished(Delivery.objects.filter(not_tried_since, created_at__lt=oldest))


def delete_finished(deliveries: QuerySet[Delivery]) -> None:
    """Delete those deliveries that are not pending, the oldest first, each batch in a transaction of its own."""
    finished = deliveries.exclude(state=Delivery.State.PENDING).order_by("created_at")
    while True:
        with transaction.atomic():
            # Locked, so that none is replayed meanwhile; one that is being replayed is skipped.
            batch = list(finished.select_for_update(skip_locked=True).values_list("pk", flat=True)[:BATCH_SIZE])
            Delivery.objects.filter(pk__in=batch).only("pk").delete()
        if len(batch) < BATCH_SIZE:
            return
        time.sleep(PAUSE_SECONDS)
