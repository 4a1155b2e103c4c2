"""The nodes that relayers depend on, and how they answer.

Calls are counted in memory, and written every few seconds, when each process also learns which nodes are taken out.
The inventory has the statistics of the last hour, in a constant number of queries.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, Min
from django.utils import timezone

from chain.networks import networks
from chain.nodes import breakers, failover
from chain.nodes.observers import Head, NodeCall, node_key
from chain.nodes.plausibility import MAX_TIMESTAMP
from relayer_service.background.counts import PendingCounts
from relayer_service.background.pools import map_threads
from relayer_service.database.ttl_cache import TTLCache
from relayer_service.net.addresses import mask
from relayer_service.observability import call_counts
from relayer_service.observability.call_counts import NODE, OK, CallCount, Key, Tally
from relayers.models import MASKED_COLUMNS, PRIVATE, UNKNOWN_NODES, Relayer
from relayers.models.nodes import NodeOutage

FAILED = "failed"
SLOT_MINUTES = 10
# More than the page shows.
RETENTION = timedelta(hours=2)
# The limit of the column.
MAX_HEAD = 2**63 - 1
HEAD_SECONDS = 3600
FAULT_LENGTH = CallCount._meta.get_field("last_fault").max_length
# Sets of custom nodes that are shown and checked, the most used first.
MAX_SETS = 100
PERIOD = timedelta(hours=1)

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


@dataclass(frozen=True)
class Node:
    key: str
    network: str
    # Masked.
    url: str
    relayers: int
    is_private: bool = False
    # A relayer with this custom node; None for a node of the network.
    example: int | None = None


@dataclass(frozen=True)
class Inventory:
    nodes: Sequence[Node]
    # Relayers that are not counted: their nodes are unknown until their next check, or their set is left out.
    unknown: int = 0
    has_more: bool = False

    def find(self, key: str) -> Node | None:
        return next((node for node in self.nodes if node.key == key), None)


def read_inventory(**conditions: str) -> Inventory:
    """Return each node that one of these relayers depends on; counted in an index, and no URL is decrypted."""
    rows: Any = Relayer.objects.filter(**conditions).order_by().values_list("network", "node_keys")
    rows = rows.annotate(Count("sequence"), Min("sequence"))
    common = list(rows.filter(node_keys__in=["", UNKNOWN_NODES]))
    sets = list(rows.exclude(node_keys__in=["", UNKNOWN_NODES]).order_by("-sequence__count")[: MAX_SETS + 1])
    shown = sets[:MAX_SETS]
    examples = Relayer.objects.only("sequence", *MASKED_COLUMNS.values()).in_bulk([first for *_, first in shown])
    counts, found, unknown = Counter[tuple[str, bool]](), dict[tuple[str, str], Node](), 0
    for network, keys, count, first in [*common, *shown]:
        if keys == UNKNOWN_NODES:
            unknown += count
            continue
        own = list(own_nodes(network, keys, count, examples.get(first)))
        for node in own:
            known = found.get((network, node.key))
            found[network, node.key] = replace(known, relayers=known.relayers + count) if known else node
        for is_private in (False, True):
            if not any(node.is_private == is_private for node in own):
                counts[network, is_private] += count
    shared = [
        node for (network, is_private), count in counts.items() for node in shared_nodes(network, is_private, count)
    ]
    every = sorted(
        [*shared, *found.values()], key=lambda node: (node.network, node.example is not None, -node.relayers)
    )
    return Inventory(every, unknown, len(sets) > MAX_SETS)


def own_nodes(network: str, keys: str, count: int, example: Relayer | None) -> Iterator[Node]:
    """Yield the custom nodes of a set of keys; the relayer has their masked URLs in the same order."""
    if not keys or example is None:
        return
    masked = [
        entry["url"] for column in MASKED_COLUMNS.values() for entry in getattr(example, column) if entry["weight"]
    ]
    for key, url in zip(keys.split(), masked, strict=False):
        yield Node(key.removeprefix(PRIVATE), network, url, count, key.startswith(PRIVATE), example.pk)


def shared_nodes(network: str, is_private: bool, count: int) -> Iterator[Node]:
    known = networks().get(network)
    for url in (known.private_rpc_urls if is_private else known.rpc_urls) if known else ():
        yield Node(node_key(url), network, mask(url), count, is_private)


@dataclass
class Statistics:
    """The calls to a node in the last hour."""

    answered: Tally = field(default_factory=Tally)
    failed: Tally = field(default_factory=Tally)

    @property
    def total(self) -> Tally:
        return Tally.total([self.answered, self.failed])

    @property
    def is_failing(self) -> bool:
        """Whether the last call failed."""
        failed, answered = self.failed.last_at, self.answered.last_at
        return failed is not None and (answered is None or answered < failed)


@dataclass(frozen=True)
class State:
    """What is known of nodes, by their keys."""

    statistics: dict[str, Statistics]
    # Until when circuit breakers pause them.
    pauses: dict[str, datetime]
    outages: dict[str, NodeOutage]


def read_state(keys: Iterable[str]) -> State:
    wanted, now = {*keys}, timezone.now()
    statistics: dict[str, Statistics] = defaultdict(Statistics)
    for key, tally in call_counts.read(NODE, slot_of(now - PERIOD), subject__in=wanted):
        found = statistics[key.subject]
        (found.failed if key.outcome == FAILED else found.answered).add(tally)
    pauses = {key: datetime.fromtimestamp(until, UTC) for key, until in breakers.pauses(wanted).items()}
    outages = {row.node: row for row in NodeOutage.objects.filter(until__gt=now)}
    return State(dict(statistics), pauses, outages)


def url_of(node: Node) -> tuple[str, int | None]:
    """Return the URL of a node, empty if it cannot be read, and its chain."""
    if node.example is None:
        known = networks()[node.network]
        return next((url for url in known.rpc_urls if node_key(url) == node.key), ""), known.chain_id
    relayer = Relayer.objects.filter(pk=node.example).first()
    urls = relayer.own_urls() if relayer else []
    chain_id = relayer.expected_chain_id if relayer else None
    return next((url for url in urls if node_key(url) == node.key), ""), chain_id


def check_all() -> None:
    """Read the head block of every node, so that each has current statistics; private ones are never read from."""
    known = {node.key: node for node in read_inventory().nodes if not node.is_private}
    found = [url_of(node) for node in known.values()]
    map_threads(lambda node: failover.status(*node), [(url, chain_id) for url, chain_id in found if url])
