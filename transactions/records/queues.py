"""The queue of a lane: the transactions that wait for a nonce, and how many of them one requester can have.

A requester is a family of tokens, or "" for staff and the service. While others wait, it has at most half of the
queue. What it has beyond that, from when it was alone, takes no place of the others.
"""

import math
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection
from django.db.models import Min, OuterRef, QuerySet, Subquery

from transactions.models import IS_PENDING, Lane, Transaction

FULL = "Relayer has {} pending transactions, the maximum"
SHARE_USED = "Relayer has {} pending transactions of this token, the maximum while others wait"
# Within so many places of a maximum, requests are counted one after the other.
EXACT_PLACES = 64
MAX_WAIT = timedelta(minutes=15)
LOCK = "SELECT pg_advisory_xact_lock(0x51554555, %s)"
PENDING = "FROM transactions_transaction WHERE lane_id = {} AND nonce IS NULL AND finished_at IS NULL"
# Positions beyond are not counted: one more stands for all of them.
MAX_POSITION = 1_000
# All and those of the requester, for the statements that accept; see `size_parameters`. A queue has at most as many
# rows as there are numbers from its first to its last: if that is far from any maximum, it is not counted to its end.
SIZES = """
(SELECT ARRAY[count(*), count(*) FILTER (WHERE requester = %s)] FROM (
  SELECT requester {pending} LIMIT CASE WHEN (
    (SELECT sequence {pending} ORDER BY sequence DESC LIMIT 1) - (SELECT sequence {pending} ORDER BY sequence LIMIT 1)
  ) < %s THEN %s ELSE %s END
) AS pending)
""".format(pending=PENDING.format("lane.id"))  # noqa: S608  # constants
COUNT = f"SELECT requester, count(*) {PENDING.format('%s')} GROUP BY requester"  # constants


class Queue(NamedTuple):
    """How many transactions wait: of all, of the requester, and of each requester at most its share."""

    queued: int = 0
    own: int = 0
    shared: int = 0

    @property
    def share_used(self) -> bool:
        return share() <= self.own < self.queued

    def refusal(self) -> str:
        """Return why the queue has no place for the requester, or ""."""
        limit: int = settings.TRANSACTION_QUEUE_LIMIT
        if self.share_used:
            return SHARE_USED.format(self.own)
        return FULL.format(limit) if max(self.own, self.shared) >= limit else ""

    def is_close(self) -> bool:
        """Return whether concurrent requests could exceed a maximum."""
        return bool(Queue(*(count + EXACT_PLACES for count in self)).refusal())


def share() -> int:
    return max(1, int(settings.TRANSACTION_QUEUE_LIMIT) // 2)


def size_parameters(requester: str) -> list[Any]:
    return [requester, share() - EXACT_PLACES, MAX_POSITION + 1, settings.TRANSACTION_QUEUE_LIMIT]


def count(lane: Lane, requester: str, *, lock: bool = False) -> Queue:
    """Count the queue of a lane. With `lock`, a place that is left stays so until the end of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [lane.pk])
        sizes = dict(cursor.fetchall())
        found = Queue(sum(sizes.values()), sizes.get(requester, 0), sum(min(size, share()) for size in sizes.values()))
        if not lock or connection.vendor != "postgresql" or found.refusal():
            return found
        cursor.execute(LOCK, [lane.pk % 2**31])
    return count(lane, requester)


def with_oldest_due() -> QuerySet[Any]:
    """Return the lanes of relayers that are not paused, with when their first pending row is due: one look each."""
    first = Transaction.objects.filter(IS_PENDING, lane=OuterRef("pk")).order_by("due_at").values("due_at")[:1]
    lanes: QuerySet[Any] = Lane.objects.filter(relayer__paused=False).annotate(oldest_due=Subquery(first))
    return lanes


def retry_after(lane: Lane, now: datetime, block_seconds: float, **of: Any) -> int:
    """Return when to repeat a request that the queue, or the rows `of` its requester, has no place for, in seconds.

    As long again as nothing has left the queue; at least until a block is mined and until a transaction is considered
    again, and at most until one expires.
    """
    rows = Transaction.objects.filter(IS_PENDING, lane=lane, **of)
    times = rows.aggregate(created=Min("created_at"), due=Min("due_at"), end=Min("valid_until"))
    created, due, end = (each or now for each in times.values())
    sent = Transaction.objects.filter(lane=lane, epoch=lane.epoch, nonce__isnull=False, sent_at__isnull=False)
    last = sent.order_by("-nonce").values_list("sent_at", flat=True).first() or created
    wait = min(max(now - max(created, last), due - now), end - now, MAX_WAIT)
    return math.ceil(max(1, block_seconds, wait.total_seconds()))
