"""Counting calls to nodes, in memory; written every few seconds, when each process also learns which are taken out."""

from datetime import UTC, datetime, timedelta

from django.utils import timezone

from chain.nodes import breakers
from chain.nodes.observers import Head, NodeCall, node_key
from chain.nodes.plausibility import MAX_TIMESTAMP
from relayer_service.background.counts import PendingCounts
from relayer_service.database.ttl_cache import TTLCache
from relayer_service.observability import call_counts
from relayer_service.observability.call_counts import NODE, OK, CallCount, Key, Tally
from relayers.models.nodes import NodeOutage

FAILED = "failed"
SLOT_MINUTES = 10
# More than the page shows.
RETENTION = timedelta(hours=2)
# The limit of the column.
MAX_HEAD = 2**63 - 1
HEAD_SECONDS = 3600
FAULT_LENGTH = CallCount._meta.get_field("last_fault").max_length

# The last head block of each node, and its time.
_heads: TTLCache[str, tuple[int, datetime]] = TTLCache()


def note(call: NodeCall) -> None:
    """Count an attempt at a node."""
    now, node = timezone.now(), node_key(call.url)
    tally = Tally.of_call(call.seconds, now)
    tally.last_fault = call.fault[:FAULT_LENGTH]
    if call.head and call.head.number <= MAX_HEAD:
        tally.head, tally.head_at = call.head.number, _head_at(node, call.head, now)
    pending.add(Key(NODE, slot_of(now), node, outcome=FAILED if call.fault else OK), tally)


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
    """Return the start of the ten minutes of a moment."""
    return moment.replace(minute=moment.minute // SLOT_MINUTES * SLOT_MINUTES, second=0, microsecond=0)


def read_outages() -> None:
    """Update the nodes that are taken out in this process."""
    breakers.set_taken_out(NodeOutage.objects.filter(until__gt=timezone.now()).values_list("node", flat=True))


pending: PendingCounts[Key, Tally] = PendingCounts("node statistics", call_counts.write, after=read_outages)
