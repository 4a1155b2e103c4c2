"""ChainReading several things from a chain: one batch to one node for all that is not cached."""

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chain import head, nodes
from chain.attempts import Call
from chain.errors import ChainFault
from chain.head import Head
from chain.networks import Network
from chain.nodes import Node
from relayer_service.storage.ttl_cache import TTLCache

HEAD = "head"


@dataclass(frozen=True)
class ChainReading:
    """Something to read: the calls that ask for it, and what their answers mean.

    The value of one with a key is cached until the next block is due, and at most for `seconds`. `read` raises a
    `ChainFault` where there is no value.
    """

    calls: Sequence[Call]
    read: Callable[[list[Any]], Any]
    key: Hashable = None
    seconds: Callable[[Any], float] = lambda value: math.inf


_values: TTLCache[Hashable, Any] = TTLCache()


def gather(relayer_nodes: Sequence[Node], network: Network, readings: Mapping[str, ChainReading]) -> dict[str, Any]:
    """Return the values of readings by name, with the `head` block; raise the first fault, in their order."""
    # The nodes of one relayer must not affect the fees of another.
    source = (network.chain_id, frozenset(relayer_nodes))
    cached: Head | None = _values.get((source, HEAD))
    # What was cached with another head block no longer counts.
    kept = {name: each.key for name, each in readings.items() if each.key is not None} if cached else {}
    found = {name: _values.get((source, key)) for name, key in kept.items()}
    missing = {name: each for name, each in readings.items() if found.get(name) is None}
    # Readings share calls, of a feed for instance: each is made once.
    calls = {id(call): call for each in missing.values() for call in each.calls}
    answers, latest = _ask(relayer_nodes, network, calls, cached)
    seconds = latest.seconds_left(network, time.time())
    if latest is not cached:
        _values.set((source, HEAD), latest, seconds)
    faults: list[ChainFault] = []
    for name, reading in missing.items():
        try:
            found[name] = value = reading.read([answers[id(call)] for call in reading.calls])
        except ChainFault as fault:
            # The others are read all the same: they may be cached for whoever asks next.
            faults.append(fault)
        else:
            if reading.key is not None:
                _values.set((source, reading.key), value, min(seconds, reading.seconds(value)))
    if faults:
        raise faults[0]
    return {**found, HEAD: latest}


def _ask(
    relayer_nodes: Sequence[Node], network: Network, calls: dict[int, Call], latest: Head | None
) -> tuple[dict[int, Any], Head]:
    """Return the answers to calls, and the head block: both of a node that is not behind."""
    if latest is not None and not calls:
        return {}, latest
    found = []

    def check(answers: list[Any]) -> None:
        if latest is None:
            found.append(head.read(answers[-1], network, time.time()))
        elif network.max_head_age_seconds is not None:
            head.check_number(answers[-1], latest, network.block_seconds, network.max_head_age_seconds)

    answers = nodes.call(relayer_nodes, [*calls.values(), *_head_calls(network, latest)], network.chain_id, check)
    return dict(zip(calls, answers, strict=False)), latest or found[-1]


def _head_calls(network: Network, latest: Head | None) -> list[Call]:
    if latest is None:
        return [head.CALL]
    # Another node than the one that told the head block may answer: its number shows whether it is behind.
    return [] if network.max_head_age_seconds is None else [head.NUMBER_CALL]
