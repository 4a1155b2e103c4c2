"""Reading several things from a chain: one batch to one node for all that is not cached."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relayer_service.storage.ttl_cache import TTLCache
from relayers.chain import nodes
from relayers.chain.attempts import Call
from relayers.chain.errors import ChainFault
from relayers.chain.networks import Network
from relayers.chain.nodes import Node

# Values of the latest block are cached until about the next one, within these limits.
MIN_CACHE_SECONDS, MAX_CACHE_SECONDS = 1.0, 15.0


@dataclass(frozen=True)
class Reading:
    """Something to read: the calls that ask for it, and what their answers mean.

    The value of one with a key is cached, for `seconds`. `read` raises one of `faults` where there is no value.
    """

    calls: Sequence[Call]
    read: Callable[[list[Any]], Any]
    key: Hashable = None
    seconds: Callable[[Any], float] = lambda value: 0
    faults: tuple[type[Exception], ...] = (ChainFault,)


_values: TTLCache[Hashable, Any] = TTLCache()


def block_seconds(network: Network) -> float:
    """Return for how long values of the latest block are cached."""
    return min(max(network.block_seconds, MIN_CACHE_SECONDS), MAX_CACHE_SECONDS)


def gather(relayer_nodes: Sequence[Node], chain_id: int, readings: Mapping[str, Reading]) -> dict[str, Any]:
    """Return the values of readings by name; raise the first fault among them, in their order."""
    # The nodes of one relayer must not affect the fees of another.
    source = (chain_id, frozenset(relayer_nodes))
    found = {name: _values.get((source, each.key)) for name, each in readings.items() if each.key is not None}
    missing = {name: each for name, each in readings.items() if found.get(name) is None}
    calls = [call for each in missing.values() for call in each.calls]
    answers = iter(nodes.call(relayer_nodes, calls, chain_id) if calls else [])
    faults: list[Exception] = []
    for name, reading in missing.items():
        own = [next(answers) for _ in reading.calls]
        try:
            found[name] = value = reading.read(own)
        except reading.faults as fault:
            # The others are read all the same: they may be cached for whoever asks next.
            faults.append(fault)
        else:
            if reading.key is not None:
                _values.set((source, reading.key), value, reading.seconds(value))
    if faults:
        raise faults[0]
    return found
