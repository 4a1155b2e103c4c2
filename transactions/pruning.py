"""Deleting old transactions, and spending policies that nobody has any more."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import PROTECT, Q, QuerySet

from relayer_service.storage.clock import database_now
from spending.models import SpendingLimit, SpendingPolicy
from transactions.models import FINAL, IS_OPEN, Attempt, Charge, Lane, Status, StatusChange, Transaction
from transactions.spending.windows import first_counted, hour_of, used

BATCH_SIZE = 500
# Between batches, for writers that wait for the lane.
PAUSE_SECONDS = 0.01


def prune() -> None:
    """Delete the transactions that have been final for TRANSACTIONS_KEEP_DAYS, each batch in its own transaction."""
    if not settings.TRANSACTIONS_KEEP_DAYS:
        return
    oldest = database_now() - timedelta(days=settings.TRANSACTIONS_KEEP_DAYS)
    lanes = _expired(oldest).order_by("lane").values_list("lane", flat=True).distinct()
    for lane in Lane.objects.filter(pk__in=list(lanes)).order_by("pk"):
        for batch in _batches(lane, oldest):
            _delete(lane, batch)


def _expired(oldest: datetime) -> QuerySet[Transaction]:
    return Transaction.objects.filter(status__in=FINAL, finished_at__lt=oldest)


# The primary key, epoch and nonce of a row.
Pruned = tuple[int, int, int | None]


def _batches(lane: Lane, oldest: datetime) -> Iterator[Sequence[Pruned]]:
    """Yield the expired rows of a lane that can go, read without locks: a final row stays final.

    Of its current nonces, only final ones go that are below every nonce that is kept.
    """
    rows, current = _expired(oldest).filter(lane=lane), Q(epoch=lane.epoch, nonce__isnull=False)
    for chosen, order in (
        (rows.filter(Q(nonce=None) | Q(epoch__lt=lane.epoch)), "pk"),
        (rows.filter(current, nonce__lt=_first_kept(lane, oldest)), "nonce"),
    ):
        while batch := list(chosen.order_by(order).values_list("pk", "epoch", "nonce")[:BATCH_SIZE]):
            yield batch
            if len(batch) < BATCH_SIZE:
                break
            time.sleep(PAUSE_SECONDS)


def _first_kept(lane: Lane, oldest: datetime) -> int:
    """Return the lowest current nonce that is kept; it does not fall while old rows are deleted."""
    own = Transaction.objects.filter(lane=lane, epoch=lane.epoch, nonce__isnull=False)
    kept = own.filter(Q(finished_at=None) | Q(finished_at__gte=oldest))
    # A pending request may be a repetition of what was found on the chain: staff need both.
    requests = Transaction.objects.filter(lane=lane, status=Status.PENDING, claim_released=False)
    claims = own.filter(unclaimed_until__isnull=False) if requests.exists() else own.none()
    nonces = [rows.order_by("nonce").values_list("nonce", flat=True).first() for rows in (kept, claims)]
    return min(nonce for nonce in (lane.final_nonce or 0, *nonces) if nonce is not None)


@transaction.atomic
def _delete(lane: Lane, rows: Sequence[Pruned]) -> None:
    keys = [row[0] for row in rows]
    locked = Lane.objects.select_for_update(no_key=True).get(pk=lane.pk)
    for model in (StatusChange, Attempt, Charge):
        model._default_manager.filter(transaction__in=keys).delete()
    Transaction.objects.filter(pk__in=keys).delete()
    nonces = [nonce for _, epoch, nonce in rows if nonce is not None and epoch == locked.epoch]
    if nonces:
        # So that a missing row above it is a violation, and below it is not.
        Lane.objects.filter(pk=lane.pk).update(first_nonce=nonces[-1] + 1)


def prune_policies() -> None:
    """Delete the spending policies without a relayer or token on which nothing counts any more, one at a time."""
    for policy in list(_unused_policies().order_by("pk").values_list("pk", flat=True)):
        hour = hour_of(database_now())
        old = Charge.objects.filter(Q(hour__lt=first_counted(hour)) | Q(amount_text="0"), limit__policy=policy)
        while keys := list(old.values_list("pk", flat=True)[:BATCH_SIZE]):
            Charge.objects.filter(pk__in=keys).delete()
            time.sleep(PAUSE_SECONDS)
        # A request that counts on it meanwhile keeps it.
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
