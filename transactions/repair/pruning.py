"""Deleting old transactions, and spending policies that nobody has any more."""

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import PROTECT, F, Q, QuerySet

from relayer_service.database.clock import database_now
from spending.models import SpendingLimit, SpendingPolicy
from transactions.limits.windows import first_counted, hour_of, used
from transactions.models import IS_OPEN, IS_PENDING, Charge, Lane, Transaction

# At most so many rows at once: fewer if a lane would be locked for longer than about so long.
BATCH_SIZE = 500
LOCKED_SECONDS = 0.02
# Between batches, for writers that wait for the lane.
PAUSE_SECONDS = 0.01
# How long to wait for a lane, and how often in succession: less than it takes PostgreSQL to notice a deadlock.
LOCK_TIMEOUT_MS = 100
MAX_FAILURES = 5


def prune() -> None:
    """Delete the transactions that have been final for TRANSACTIONS_KEEP_DAYS, each batch in its own transaction.

    Of the current nonces of a lane, only final ones go that are below every nonce that is kept.
    """
    if not settings.TRANSACTIONS_KEEP_DAYS:
        return
    oldest = database_now() - timedelta(days=settings.TRANSACTIONS_KEEP_DAYS)
    expired = Transaction.objects.filter(finished_at__lt=oldest)
    lanes = expired.order_by("lane").values_list("lane", flat=True).distinct()
    for lane in Lane.objects.filter(pk__in=list(lanes)).order_by("pk"):
        _delete_batches(expired.filter(lane=lane, epoch=lane.epoch, nonce__lt=_first_kept(lane, oldest)), "nonce")
    # In the order of an index, which is read once for all lanes.
    _delete_batches(expired.filter(Q(nonce=None) | Q(epoch__lt=F("lane__epoch"))), "finished_at")


def _delete_batches(rows: QuerySet[Transaction], order: str) -> None:
    """Delete rows, which are read without locks: a final row stays final."""
    size, rest, failures = max(1, BATCH_SIZE // 50), rows, 0
    while batch := list(rest.order_by(order).only("lane", "epoch", "nonce", "finished_at")[:size]):
        try:
            for lane in sorted({row.lane_id for row in batch}):
                seconds = _delete(lane, [row for row in batch if row.lane_id == lane])
                size, failures = max(1, min(BATCH_SIZE, int(size * min(2, LOCKED_SECONDS / seconds)))), 0
        except OperationalError:
            # The lane is in use.
            failures += 1
            if failures == MAX_FAILURES:
                raise
            time.sleep(failures)
            continue
        # Not past what was deleted, which stays in the index until it is vacuumed.
        rest = rows.filter(**{f"{order}__gte": getattr(batch[-1], order)})
        time.sleep(PAUSE_SECONDS)


def _first_kept(lane: Lane, oldest: datetime) -> int:
    """Return the lowest current nonce that is kept; it does not fall while old rows are deleted."""
    own = Transaction.objects.filter(lane=lane, epoch=lane.epoch, nonce__isnull=False)
    kept = own.filter(Q(finished_at=None) | Q(finished_at__gte=oldest))
    # A pending request may be a repetition of what was found on the chain: staff need both.
    requests = Transaction.objects.filter(IS_PENDING, lane=lane, claim_released=False)
    claims = own.filter(unclaimed_until__isnull=False) if requests.exists() else own.none()
    nonces = [rows.order_by("nonce").values_list("nonce", flat=True).first() for rows in (kept, claims)]
    return min(nonce for nonce in (lane.final_nonce or 0, *nonces) if nonce is not None)


def _delete(lane: int, rows: Sequence[Transaction]) -> float:
    """Delete rows of a lane in order, and return for how many seconds the lane was locked.

    It is locked last, as nothing else writes these rows, and does not wait for the disk: what a crash brings back is
    deleted again. Others lock it first: whoever waits for one of these rows meanwhile has it before the timeout.
    """
    started, last = time.monotonic(), rows[-1]
    with transaction.atomic():
        _execute("SET LOCAL synchronous_commit = off")
        _execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
        Transaction.objects.filter(pk__in=[row.pk for row in rows]).only("pk").delete()
        # Now, and not at the commit.
        _execute("SET CONSTRAINTS ALL IMMEDIATE")
        locked = Lane.objects.select_for_update(no_key=True).get(pk=lane)
        # SQLite is locked from the beginning.
        started = time.monotonic() if connection.vendor == "postgresql" else started
        if last.nonce is not None and last.epoch == locked.epoch and last.nonce >= (locked.first_nonce or 0):
            # So that a missing row above it is a violation, and below it is not.
            Lane.objects.filter(pk=lane).update(first_nonce=last.nonce + 1)
    return max(time.monotonic() - started, 0.001)


def _execute(statement: str) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(statement)


def prune_policies() -> None:
    """Delete the spending policies without a relayer or token on which nothing counts any more, one at a time."""
    for policy in list(_unused_policies().order_by("pk").values_list("pk", flat=True)):
        hour = hour_of(database_now())
        old = Charge.objects.filter(Q(hour__lt=first_counted(hour)) | Q(amount_text="0"), limit__policy=policy)
        while keys := list(old.values_list("pk", flat=True)[:BATCH_SIZE]):
            Charge.objects.filter(pk__in=keys).delete()
            time.sleep(PAUSE_SECONDS)
        # A concurrent request that counts on it keeps it.
        with suppress(IntegrityError):
            _delete_policy(policy, hour)


def _unused_policies() -> QuerySet[SpendingPolicy]:
    """Return the policies without a holder, and without an open row: planning fails one whose policy is gone."""
    rows = Transaction.objects.filter(IS_OPEN, token_spending__isnull=False)
    unused = SpendingPolicy.objects.exclude(pk__in=rows.values("token_spending"))
    relations: Any = SpendingPolicy._meta.get_fields(include_hidden=True)
    for each in relations:
        if getattr(each, "on_delete", None) is PROTECT:
            holders = each.related_model._base_manager.exclude(**{each.field.name: None})
            unused = unused.exclude(pk__in=holders.values(each.field.name))
    return unused


@transaction.atomic
def _delete_policy(policy: int, hour: int) -> None:
    # Locked before the policy, and in the order of whoever adds to them.
    limits = list(SpendingLimit.objects.select_for_update().filter(policy=policy).order_by("pk"))
    if not any(used(limit.hours, hour) for limit in limits):
        _unused_policies().filter(pk=policy).delete()
