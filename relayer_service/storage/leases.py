"""Rows that are due at a time, taken by one worker at a time, and never lost with it."""

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
        """Take rows that are due, all under one lease of this length: no other caller gets them meanwhile.

        Taking a row moves its `due_at` to the lease's end, so that the row of a worker that was killed is due
        again by itself. PostgreSQL skips rows that another caller is taking; SQLite lets one caller in at a time.

        The work that follows may wait long for others, so the connection goes back to its pool meanwhile.
        """
        with transaction.atomic(savepoint=False):
            rows = list(self.claimable().select_for_update(skip_locked=True)[:limit])
            # Read now: getting this far may have taken a wait.
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
        """Save what the work came to and when the row is due again, unless the lease was lost meanwhile."""
        rows = type(self).objects.filter(pk=self.pk, lease=self.lease)
        return bool(rows.update(due_at=due_at, lease=None, **changes))
