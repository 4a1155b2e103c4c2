"""Leases: rows that are due at a time, claimed by one worker at a time, and never lost with it."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any, Self

from django.db import models, transaction
from django.utils import timezone

from relayer_service.storage.databases import release_connection


class LeasedQuerySet(models.QuerySet[Any]):
    def claimable(self) -> Self:
        return self.filter(due_at__lte=timezone.now()).order_by("due_at")

    def claim(self, limit: int, length: timedelta, lease: uuid.UUID | None = None) -> list[Any]:
        """Return rows that are due, claimed under one lease of this length: no other caller gets them meanwhile.

        A claim moves `due_at` to the end of the lease, so that the rows of a killed worker become due again by
        themselves. PostgreSQL skips rows that another caller is claiming; SQLite lets one caller in at a time.

        The work that follows may wait long for others, so the connection returns to its pool.
        """
        with transaction.atomic(savepoint=False):
            rows = list(self.claimable().select_for_update(skip_locked=True)[:limit])
            # The time is read only now: the lock may have been waited for.
            until, held = timezone.now() + length, lease or uuid.uuid4()
            for row in rows:
                row.due_at, row.lease = until, held
            if rows:
                self.model.objects.filter(pk__in=[row.pk for row in rows]).update(due_at=until, lease=held)
        release_connection()
        return rows


class Leased(models.Model):
    due_at = models.DateTimeField(null=True, db_index=True, help_text="When this is to be worked on next.")
    lease = models.UUIDField(null=True, editable=False)

    objects = LeasedQuerySet.as_manager()

    class Meta:
        abstract = True

    def release(self, due_at: datetime | None, **changes: Any) -> bool:
        """Save the result of the work and when the row is due again, unless the lease was lost meanwhile."""
        rows = type(self).objects.filter(pk=self.pk, lease=self.lease)
        return bool(rows.update(due_at=due_at, lease=None, **changes))
