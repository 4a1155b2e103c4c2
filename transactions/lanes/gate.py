"""The gate: which signed bytes may leave, to which nodes, and when. Nothing else decides about it.

A turn chooses with `due`; before each call of a node with signed bytes, `passing` reads the rows again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from chain.broadcast.sending import Outcome
from chain.networks import Mempool, Network
from relayer_service.database.access import release_connection
from relayer_service.database.clock import DatabaseNow
from relayer_service.database.compiled import compiled
from transactions.models import FINAL, IN_FLIGHT, NOOPS, Attempt, Hold, Lane, Transaction
from transactions.records.routing import REBROADCAST_BLOCKS as PRIVATE_REBROADCAST_BLOCKS
from transactions.records.routing import Route, choose, head_block

REBROADCAST_BLOCKS = 3
# Final rows that are broadcast together: a node that reports too low a count must not have all of them read.
MAX_REMOVED = 128
MIN_REBROADCAST_SECONDS, MAX_REBROADCAST_SECONDS = 10, 60
# Without a mempool nothing is kept for later.
REBROADCAST_SECONDS_WITHOUT_MEMPOOL = 5
# A node that does not queue nonces gets them again, from the lowest.
NONCE_TOO_HIGH_PAUSE = timedelta(seconds=1)
# What `may_leave` reads of rows and lanes.
COLUMNS = (
    "lane", "status", "nonce", "kind", "requested_action", "payload_version", "valid_until", "last_attempt",
    "mined_attempt", "lane__epoch", "lane__holds", "lane__chain_nonce",
)  # fmt: skip


def may_leave(row: Transaction, attempt: Attempt, lane: Lane, now: datetime) -> bool:
    """Return whether the bytes of an attempt may be sent to a node now.

    Of a row in flight, only its newest attempt may: a no-op always, a payload until it expires, or until a
    cancellation or a replacement is recorded, whether or not a node has it.
    """
    if not attempt.raw or attempt.epoch != lane.epoch or attempt.nonce != row.nonce or Hold.CHAIN in lane.holds:
        return False
    if row.status in FINAL:
        # A deep reorg removed it. No other payload is ever signed for its nonce, which the ones above wait for.
        is_removed = lane.chain_nonce is not None and attempt.nonce >= lane.chain_nonce
        return is_removed and attempt.pk == row.mined_attempt_id
    if row.status not in IN_FLIGHT or attempt.pk != row.last_attempt_id:
        return False
    if attempt.purpose in NOOPS:
        return True
    has_expired = row.kind == Transaction.Kind.REQUEST and row.valid_until <= now
    return not row.is_ending and not has_expired and attempt.payload_version == row.payload_version


@compiled()
def _recorded(pks: list[int]) -> QuerySet[Transaction]:
    rows = Transaction.objects.filter(pk__in=pks).select_related("lane").only(*COLUMNS)
    return rows.annotate(now=DatabaseNow())


def passing(attempts: Sequence[Attempt]) -> set[bytes]:
    """Return the bytes of those attempts that may leave, by what is recorded now: one query."""
    found: dict[int, Any] = {row.pk: row for row in _recorded(sorted({each.transaction_id for each in attempts}))}
    # A node is called next, which may take long.
    release_connection()
    own = [(found[each.transaction_id], each) for each in attempts if each.transaction_id in found]
    return {bytes(attempt.raw) for row, attempt in own if may_leave(row, attempt, row.lane, row.now)}


def removed_rows(lane: Lane) -> QuerySet[Transaction]:
    """Return the final rows whose nonce the chain waits for again, ascending, each with its `mined_attempt`."""
    if lane.chain_nonce is None:
        return Transaction.objects.none()
    rows = Transaction.objects.filter(lane=lane, epoch=lane.epoch, status__in=FINAL, nonce__gte=lane.chain_nonce)
    return rows.filter(mined_attempt__isnull=False).select_related("mined_attempt").order_by("nonce")[:MAX_REMOVED]


def due(lane: Lane, rows: Iterable[Transaction], network: Network, now: datetime) -> list[Attempt]:
    """Return the attempts of rows in flight, and of removed ones, that may leave and are due.

    On each route, these are the ones that were never broadcast or not for some time; all of them if a node has a gap.
    """
    current = [(row, row.mined_attempt if row.status in FINAL else row.last_attempt) for row in rows]
    leaving = [each for row, each in current if each is not None and may_leave(row, each, lane, now)]
    found: list[Attempt] = []
    for route in Route:
        routed = on_route(route, leaving, lane)
        too_high = (each.last_broadcast_at for each in routed if each.outcome == Outcome.NONCE_TOO_HIGH)
        has_gap = any(last is not None and now - last >= NONCE_TOO_HIGH_PAUSE for last in too_high)
        found += [each for each in routed if has_gap or is_due(each, network, now, route, head_block(lane))]
    return found


def on_route(route: Route, attempts: Iterable[Attempt], lane: Lane) -> list[Attempt]:
    """Return the attempts that go to the nodes of a route now."""
    fallback_blocks = lane.relayer.private_fallback_blocks if lane.relayer else None
    return [each for each in attempts if choose(each, fallback_blocks, head_block(lane)) is route]


def is_due(
    attempt: Attempt, network: Network, now: datetime, route: Route = Route.PUBLIC, head: int | None = None
) -> bool:
    """Return whether to broadcast an attempt again: nodes may have dropped it; private ones keep it some blocks."""
    last = attempt.last_broadcast_at
    if last is None:
        return True
    is_kept = route is Route.PRIVATE and attempt.outcome in {Outcome.ACCEPTED, Outcome.KNOWN}
    if is_kept and attempt.broadcast_block is not None and head is not None:
        return head - attempt.broadcast_block >= PRIVATE_REBROADCAST_BLOCKS
    seconds = min(max(REBROADCAST_BLOCKS * network.block_seconds, MIN_REBROADCAST_SECONDS), MAX_REBROADCAST_SECONDS)
    if network.mempool == Mempool.NONE:
        seconds = REBROADCAST_SECONDS_WITHOUT_MEMPOOL
    return now - last >= timedelta(seconds=seconds)
