"""Which worker has a lane: claiming, renewing and releasing. For progress only, never for safety."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Case, DateTimeField, Exists, ExpressionWrapper, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Coalesce

from relayer_service.database.clock import DatabaseNow
from relayer_service.database.compiled import compiled
from transactions.models import IS_OPEN, IS_PENDING, Lane, Transaction, Waiting, amount_text
from transactions.settlement.nonces import restores
from transactions.settlement.removable import has_removable_rows

# Lanes that one worker holds: each has rows in memory, and all share its threads.
MAX_LANES = 500


def lease_length() -> timedelta:
    return timedelta(seconds=settings.LANE_LEASE_SECONDS)


def has_work() -> Q:
    """Return the condition of a lane that a worker must have: open transactions, or some that a reorg can remove."""
    return Q(Exists(Transaction.objects.filter(IS_OPEN, lane=OuterRef("pk")))) | Q(has_removable_rows())


@compiled()
def due_lanes() -> QuerySet[Lane]:
    """Return lanes that have work and no worker, those that waited longest first."""
    lanes: QuerySet[Lane] = Lane.objects.filter(has_work()).claimable().only("pk")[:MAX_LANES]
    return lanes


def claim(lane_pk: int) -> Lane | None:
    """Return a lane under a new lease, or None if another worker has it."""
    restores.check_all_lanes()
    claimed: list[Lane] = Lane.objects.filter(pk=lane_pk).claim(1, lease_length())
    return claimed[0] if claimed else None


def renew(lanes: Sequence[Lane]) -> None:
    """Extend the leases of lanes, except of those that a turn or a look has locked: they are renewed the next time."""
    end = ExpressionWrapper(DatabaseNow() + lease_length(), output_field=DateTimeField())
    with transaction.atomic():
        free = Lane.objects.held(lanes).select_for_update(skip_locked=True, no_key=True, of=("self",))
        Lane.objects.filter(pk__in=[*free.values_list("pk", flat=True)]).update(due_at=end)


@compiled()
def _without_work(lane: int) -> QuerySet[Lane]:
    return Lane.objects.filter(pk=lane).exclude(has_work()).only("pk")


def release_if_idle(lane: Lane) -> bool:
    """Release a lane without work, in one statement: a transaction that is accepted meanwhile is not missed."""
    if not _without_work(lane.pk):
        return False
    idle = Lane.objects.held([lane]).exclude(has_work())
    nothing: dict[str, Any] = {"waiting": "", "waiting_since": None, "waiting_details": "", "missing_text": ""}
    return bool(idle.update(lease=None, due_at=DatabaseNow(), **nothing))


def release(lane: Lane, seconds: float = 0) -> None:
    """Release a lane, which is not claimed again before so many seconds."""
    lane.release(ExpressionWrapper(DatabaseNow() + timedelta(seconds=seconds), output_field=DateTimeField()))


@compiled()
def poll(lanes: list[int]) -> Any:
    """Return lanes with how many actions were ever requested, and `newest`, the highest number of due requests."""
    due = Transaction.objects.filter(IS_PENDING, lane=OuterRef("pk"), due_at__lte=DatabaseNow())
    newest = Subquery(due.order_by("-sequence").values("sequence")[:1])
    return Lane.objects.filter(pk__in=lanes).annotate(newest=Coalesce(newest, 0)).only("actions")


def set_waiting(lane: Lane, waiting: Waiting | str, details: str = "", missing: int | None = None) -> None:
    """Save what a lane waits for and since when, or that it waits for nothing.

    While nodes fail nobody knows what is missing: it stays as it was.
    """
    columns = {"waiting": waiting, "waiting_details": details}
    if waiting != Waiting.NODES:
        columns["missing_text"] = amount_text(missing)
    since = Case(When(waiting=waiting, then="waiting_since"), default=DatabaseNow()) if waiting else None
    Lane.objects.held([lane]).exclude(**columns).update(waiting_since=since, **columns)
