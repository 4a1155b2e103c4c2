"""Rows that one sender works on.

A claim is one UPDATE on every database: it moves `next_attempt_at` to the end of a lease, and from then on only the
holder of `claim` can write the row. The rows of a sender that was killed are due again after the lease.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import uuid4

from django.db import connections, transaction
from django.db.models import F, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from relayer_client.outbox.models import OutboxQuerySet, OutboxTransaction

LEASE = timedelta(minutes=1)
FOLLOWED = ("status", "status_reason", "hash", "attempts", "next_attempt_at", "claim", "updated_at")


class Claim:
    """Due rows of a queryset, to which `changes` are written.

    Relayers take turns; the rows of one are in their order, those that have failed last.
    """

    def __init__(self, rows: OutboxQuerySet, limit: int, **changes: Any) -> None:
        self._id, self._ends_at = uuid4(), timezone.now() + LEASE
        # Where locked rows can be skipped, two senders do not choose the same ones.
        skips = connections[rows.db].features.has_select_for_update_skip_locked
        with transaction.atomic(rows.db) if skips else nullcontext():
            turn = Window(RowNumber(), partition_by=F("relayer"), order_by=["attempts", "pk"])
            first = rows.due().annotate(turn=turn).order_by("turn", "pk").values("pk")[:limit]
            candidates = rows.due().filter(pk__in=first)
            candidates = candidates.select_for_update(skip_locked=True) if skips else candidates
            chosen = list(candidates.values_list("pk", flat=True))
            if chosen:
                # Its conditions are checked again: another sender may have been first.
                due = rows.due().filter(pk__in=chosen)
                due.update(claim=self._id, next_attempt_at=self._ends_at, **changes)
        # Those of them that are still claimed.
        self.left = OutboxTransaction.objects.using(rows.db).filter(pk__in=chosen, claim=self._id)
        found, turns = self.left.order_by("attempts", "pk") if chosen else (), defaultdict[str, Iterator[int]](count)
        self.rows = sorted(found, key=lambda row: next(turns[row.relayer]))
        self.is_full = len(chosen) == limit

    @property
    def has_ended(self) -> bool:
        """Return whether the rows may belong to another sender by now, such as after the machine was suspended."""
        return timezone.now() > self._ends_at

    @property
    def is_late(self) -> bool:
        """Return whether less than half of the lease is left."""
        return timezone.now() > self._ends_at - LEASE / 2

    def save(self, row: OutboxTransaction, **values: Any) -> bool:
        """Write a row and end its claim; return False if another sender has it by now."""
        values |= {"claim": None, "updated_at": timezone.now()}
        for name, value in values.items():
            if not hasattr(value, "resolve_expression"):
                setattr(row, name, value)
        return bool(self.left.filter(pk=row.pk).update(**values))

    def save_all(self, rows: Sequence[OutboxTransaction]) -> None:
        """Write what was read of many rows, and end their claims."""
        for row in rows:
            row.claim, row.updated_at = None, timezone.now()
        self.left.bulk_update(rows, FOLLOWED, batch_size=100)

    def release(self, **changes: Any) -> None:
        """Leave the rest to the next run."""
        self.left.update(claim=None, next_attempt_at=timezone.now(), **changes)
