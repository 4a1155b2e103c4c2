"""Retention: entries older than AUDIT_KEEP_DAYS are deleted, a batch at a time."""

import time
from datetime import timedelta

from django.conf import settings

from relayer_service.audit.models import AuditEntry
from relayer_service.storage.clock import DatabaseNow

BATCH_SIZE = 1_000
# Between two batches: on SQLite others cannot write while one is deleted.
PAUSE_SECONDS = 0.01


def prune() -> None:
    """Delete the entries whose retention has ended, the oldest first, each batch in a transaction of its own."""
    if not settings.AUDIT_KEEP_DAYS:
        return
    oldest = DatabaseNow() - timedelta(days=settings.AUDIT_KEEP_DAYS)
    old = AuditEntry.objects.filter(at__lt=oldest).order_by("at", "id").values("pk")
    while True:
        deleted, _ = AuditEntry.objects.filter(pk__in=list(old[:BATCH_SIZE].values_list("pk", flat=True))).delete()
        if deleted < BATCH_SIZE:
            return
        time.sleep(PAUSE_SECONDS)
