"""Reading several values from a chain: one batch to one node for all that are not cached."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chain.errors import ChainFault, NodesUnreachable
from chain.networks import Network
from chain.nodes import failover, head
from chain.nodes.attempts import Call
from chain.nodes.failover import Node
from chain.nodes.head import Head
from relayer_service.background.pools import map_threads
from relayer_service.database.clock import shared_time
from relayer_service.database.ttl_cache import TTLCache

HEAD = "head"


@dataclass(frozen=True)
class ChainReading:
    """A value to read: its calls, and `read`, which returns it from their answers or raises a `ChainFault`.

    With a key, the value is cached until the next block is due, and at most for `seconds`.
    """

    calls: Sequence[Call]
    read: Callable[[list[Any]], Any]
    key: Hashable = None
    seconds: Callable[[Any], float] = lambda value: math.inf


_values: TTLCache[Hashable, Any] = TTLCache()


def gather(relayer_nodes: Sequence[Node], network: Network, readings: Mapping[str, ChainReading]) -> dict[str, Any]:
    """Return the values by name, with the `head` block; raise the fault of the first reading that has one."""
    found = _gather(relayer_nodes, network, readings)
    for name in readings:
        if isinstance(found[name], ChainFault):
            raise found[name]
    return found


def gather_each(
    relayer_nodes: Sequence[Node], network: Network, readings: Mapping[Any, ChainReading]
) -> dict[Any, Any]:
    """Return the value or the `ChainFault` of each reading by name, with the `head` block.

    Only `NodesUnreachable` is raised. If no node answers all calls, one of them may be the reason, such as a
    simulation that takes too long: then the readings that are not shared are read one by one.
    """
    try:
        return _gather(relayer_nodes, network, readings)
    except NodesUnreachable:
        shared = {name: each for name, each in readings.items() if each.key is not None}
        alone = {name: each for name, each in readings.items() if each.key is None}
        if not alone:
            raise
        found = _gather(relayer_nodes, network, shared)

    def read(name: str) -> Any:
        try:
            return _gather(relayer_nodes, network, {name: alone[name]})[name]
        except NodesUnreachable as fault:
            return fault

    return {**found, **dict(zip(alone, map_threads(read, [*alone]), strict=True))}


def _gather(relayer_nodes: Sequence[Node], network: Network, readings: Mapping[Any, ChainReading]) -> dict[Any, Any]:
    # The nodes of one relayer must not affect the fees of another.
    source = (network.chain_id, frozenset(relayer_nodes))
    cached: Head | None = _values.get((source, HEAD))
    # Values that were cached with another head block are stale.
    kept = {name: each.key for name, each in readings.items() if each.key is not None} if cached else {}
    found = {name: _values.get((source, key)) for name, key in kept.items()}
    missing = {name: each for name, each in readings.items() if found.get(name) is None}
    # Readings may share a call, of a feed for example: it is made once.
    calls = {id(call): call for each in missing.values() for call in each.calls}
    answers, latest = _call(relayer_nodes, network, calls, cached)
    seconds = latest.seconds_left(network, shared_time())
    if latest is not cached:
        _values.set((source, HEAD), latest, seconds)
    for name, reading in missing.items():
        try:
            found[name] = value = reading.read([answers[id(call)] for call in reading.calls])
        except ChainFault as fault:
            # The others are still read, and cached for the next caller.
            found[name] = fault
        else:
            if reading.key is not None:
                _values.set((source, reading.key), value, min(seconds, reading.seconds(value)))
    return {**found, HEAD: latest}


def _call(
    relayer_nodes: Sequence[Node], network: Network, calls: dict[int, Call], latest: Head | None
) -> tuple[dict[int, Any], Head]:
    """Return the answers to calls and the head block, from a node that is not behind."""
    if latest is not None and not calls:
        return {}, latest
    found = []
    # The number shows whether the node is behind the one that reported the cached head block.
    head_call = head.CALL if latest is None else head.NUMBER_CALL
    if latest is None or network.max_head_age_seconds is not None:
        calls.setdefault(id(head_call), head_call)

    def check(answers: list[Any]) -> None:
        answer = dict(zip(calls, answers, strict=True)).get(id(head_call))
        if latest is None:
            found.append(head.read(answer, network, shared_time()))
        elif network.max_head_age_seconds is not None:
            head.check_number(answer, latest, network.block_seconds, network.max_head_age_seconds)

    answers = failover.call(relayer_nodes, [*calls.values()], network.chain_id, check)
    return dict(zip(calls, answers, strict=True)), latest or found[-1]
