"""Leases: due rows, which one worker claims at a time. When it is killed, they become due again.

All times are the database's: a wrong clock of a worker has no effect.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from django.db import models, transaction
from django.db.models.expressions import Combinable

from relayer_service.database.access import release_connection
from relayer_service.database.clock import DatabaseNow, database_now


class LeasedQuerySet(models.QuerySet[Any]):
    def claimable(self) -> Self:
        return self.filter(due_at__lte=DatabaseNow()).exclude(self.model.leased()).order_by("due_at")

    def claim(self, limit: int, length: timedelta, lease: uuid.UUID | None = None) -> list[Any]:
        """Return due rows, claimed under one lease of this length: no other caller gets them before it ends.

        PostgreSQL skips rows that another caller is claiming; SQLite has one writer at a time. The connection returns
        to its pool, as the work that follows may wait long.
        """
        with transaction.atomic(savepoint=False):
            rows = list(self.claimable().select_for_update(skip_locked=True, of=("self",))[:limit])
            if rows:
                # Read after the lock, which may take a while to get.
                claim = {self.model.lease_end: database_now() + length, "lease": lease or uuid.uuid4()}
                self.model.objects.filter(pk__in=[row.pk for row in rows]).update(**claim)
                for row in rows:
                    for name, value in claim.items():
                        setattr(row, name, value)
        release_connection()
        return rows

    def held(self, rows: Iterable[Leased]) -> Self:
        """Return the rows that are still held under the lease they were claimed with."""
        keys = defaultdict(list)
        for row in rows:
            if row.lease:
                keys[row.lease].append(row.pk)
        held = models.Q(pk__in=[])
        for lease, claimed in keys.items():
            held |= models.Q(lease=lease, pk__in=claimed)
        return self.filter(held)


class Leased(models.Model):
    # The column that a claim sets to the end of its lease.
    lease_end: ClassVar[str] = "due_at"

    due_at = models.DateTimeField(null=True, db_index=True, help_text="When the row is next due.")
    lease = models.UUIDField(null=True, editable=False)

    objects = LeasedQuerySet.as_manager()

    class Meta:
        abstract = True

    @classmethod
    def leased(cls) -> models.Q:
        return models.Q(("lease__isnull", False), (f"{cls.lease_end}__gt", DatabaseNow()))

    def clean_fields(self, exclude: Collection[str] | None = None) -> None:
        # `due_at` may be an expression.
        super().clean_fields({*(exclude or ()), "due_at"})

    def release(self, due_at: datetime | Combinable | None, **changes: Any) -> bool:
        """Save the result of the work and the next due time, unless the lease was lost."""
        return bool(type(self).objects.held([self]).update(due_at=due_at, lease=None, **changes))
