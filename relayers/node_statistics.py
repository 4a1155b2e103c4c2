"""Counting calls to nodes, in memory; written every few seconds, when each process also learns which are taken out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.utils import timezone

from chain import breakers
from chain.node_calls import Head, NodeCall, node_key
from chain.plausibility import MAX_TIMESTAMP
from relayer_service.background.counts import PendingCounts
from relayer_service.storage import latencies
from relayer_service.storage.ttl_cache import TTLCache
from relayers.node_models import NodeCalls, NodeOutage

# The limit of the column.
MAX_HEAD = 2**63 - 1
HEAD_SECONDS = 3600
FAULT_LENGTH = NodeCalls._meta.get_field("last_fault").max_length

COLUMNS = [
    *("node", "slot", "calls", "failed", "slowest_milliseconds"),
    *("head", "head_at", "answered_at", "failed_at", "last_fault"),
    *latencies.COLUMNS,
]
ADDED = ["calls", "failed", *latencies.COLUMNS]
# The last write wins: a local chain that starts over has a lower head block.
REPLACED = ["head", "head_at", "answered_at", "failed_at"]
# Processes add to the same rows: the same order prevents deadlocks.
WRITE = """
INSERT INTO relayers_nodecalls AS stored ({columns}) VALUES {rows}
ON CONFLICT (node, slot) DO UPDATE SET
  {added},
  {replaced},
  slowest_milliseconds = CASE
    WHEN excluded.slowest_milliseconds > stored.slowest_milliseconds THEN excluded.slowest_milliseconds
    ELSE stored.slowest_milliseconds
  END,
  last_fault = CASE WHEN excluded.last_fault = '' THEN stored.last_fault ELSE excluded.last_fault END
"""

PARTS = {
    "columns": ", ".join(COLUMNS),
    "added": ", ".join(f"{name} = stored.{name} + excluded.{name}" for name in ADDED),
    "replaced": ", ".join(f"{name} = COALESCE(excluded.{name}, stored.{name})" for name in REPLACED),
}

Key = tuple[str, datetime]


@dataclass(slots=True)
class NodeTally:
    calls: int = 1
    failed: int = 0
    slowest: int = 0
    head: int | None = None
    head_at: datetime | None = None
    answered_at: datetime | None = None
    failed_at: datetime | None = None
    last_fault: str = ""
    # Calls by duration, as in `latencies.COLUMNS`.
    durations: list[int] = field(default_factory=lambda: [0] * len(latencies.COLUMNS))

    def add(self, newer: NodeTally) -> None:
        self.calls += newer.calls
        self.failed += newer.failed
        self.slowest = max(self.slowest, newer.slowest)
        if newer.head is not None:
            self.head, self.head_at = newer.head, newer.head_at
        self.answered_at = newer.answered_at or self.answered_at
        self.failed_at = newer.failed_at or self.failed_at
        self.last_fault = newer.last_fault or self.last_fault
        self.durations = [own + more for own, more in zip(self.durations, newer.durations, strict=True)]


# The last head block of each node, and its time.
_heads: TTLCache[str, tuple[int, datetime]] = TTLCache()


def note(call: NodeCall) -> None:
    """Count an attempt at a node."""
    now, node = timezone.now(), node_key(call.url)
    milliseconds = call.seconds * 1000
    tally = NodeTally(slowest=round(milliseconds))
    tally.durations[latencies.bucket(milliseconds)] = 1
    if call.fault:
        tally.failed, tally.failed_at, tally.last_fault = 1, now, call.fault[:FAULT_LENGTH]
    else:
        tally.answered_at = now
    if call.head and call.head.number <= MAX_HEAD:
        tally.head, tally.head_at = call.head.number, _head_at(node, call.head, now)
    pending.add((node, slot_of(now)), tally)


def _head_at(node: str, head: Head, now: datetime) -> datetime:
    """Return the time of a head block, or else when this process first saw it."""
    known = _heads.get(node)
    if head.timestamp is not None and head.timestamp <= MAX_TIMESTAMP:
        at = datetime.fromtimestamp(head.timestamp, UTC)
    else:
        at = known[1] if known and known[0] == head.number else now
    _heads.set(node, (head.number, at), HEAD_SECONDS)
    return at


def slot_of(moment: datetime) -> datetime:
    minutes = NodeCalls.LENGTH.seconds // 60
    return moment.replace(minute=moment.minute // minutes * minutes, second=0, microsecond=0)


def write(rows: Sequence[tuple[Key, NodeTally]]) -> None:
    values: list[Any] = []
    for (node, slot), tally in sorted(rows, key=lambda row: row[0]):
        row = [node, slot, tally.calls, tally.failed, tally.slowest]
        row += [tally.head, tally.head_at, tally.answered_at, tally.failed_at, tally.last_fault, *tally.durations]
        values += [
            connection.ops.adapt_datetimefield_value(each) if isinstance(each, datetime) else each for each in row
        ]
    places = f"({', '.join(['%s'] * len(COLUMNS))})"
    with connection.cursor() as cursor:
        cursor.execute(WRITE.format(**PARTS, rows=", ".join([places] * len(rows))), values)


def read_outages() -> None:
    """Update the nodes that are taken out in this process."""
    breakers.set_taken_out(NodeOutage.objects.filter(until__gt=timezone.now()).values_list("node", flat=True))


pending: PendingCounts[Key, NodeTally] = PendingCounts("node statistics", write, after=read_outages)
