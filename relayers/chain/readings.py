"""Reading many things from a chain at once: one batch, to one node, for all that is not known yet."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import TimeoutError as WaitTimeout
from dataclasses import dataclass
from typing import Any

from relayers.chain import nodes
from relayers.chain.attempts import Call
from relayers.chain.nodes import Node
from rpc import errors
from rpc.kept import Kept, Slot

# How long another is waited for, who may have asked for something that takes longer than what is wanted of him.
PATIENCE_SECONDS = 2


@dataclass(frozen=True)
class Reading:
    """Something to read: the calls that ask for it, and what their answers mean.

    One with a key is read for all who want the same from the same nodes, and kept: `seconds` says for how long.
    """

    calls: Sequence[Call]
    read: Callable[[list[Any]], Any]
    key: Hashable = None
    seconds: Callable[[Any], float] = lambda value: 0


kept: Kept[Any] = Kept()


class Abandoned(Exception):
    """Whoever was to read something for others could not ask for it: what he wanted besides may be to blame."""


def gather(relayer_nodes: Sequence[Node], chain_id: int, readings: Mapping[str, Reading]) -> dict[str, Any]:
    """Give the values of readings by name; raise the first error among them, in their order."""
    slots: dict[str, Slot[Any]] = {}
    mine: dict[str, Reading] = {}
    for name, reading in readings.items():
        is_mine = True
        if reading.key is not None:
            # Nodes that staff have set for one relayer have no say in the fees of another.
            slots[name], is_mine = kept.take((chain_id, frozenset(relayer_nodes), reading.key))
        if is_mine:
            mine[name] = reading
    awaited = mine.keys() & slots.keys()
    try:
        outcomes = _read(relayer_nodes, chain_id, mine)
        # Those that others wait for first, and only then those that are waited for.
        for name in awaited:
            _settle(slots[name], mine[name], outcomes[name])
    except BaseException:
        for name in awaited:
            slots[name].fail(Abandoned())
        raise
    outcomes |= {name: _wait(slots[name]) for name in readings.keys() - mine.keys()}
    if left := {name: reading for name, reading in readings.items() if isinstance(outcomes[name], Abandoned)}:
        outcomes |= _read(relayer_nodes, chain_id, left)
    for name in readings:
        if isinstance(outcomes[name], errors.RpcError):
            raise outcomes[name]
    return outcomes


def _read(relayer_nodes: Sequence[Node], chain_id: int, readings: Mapping[str, Reading]) -> dict[str, Any]:
    """Make the calls of all readings in one batch; give by name a value, or why there is none."""
    calls = [call for reading in readings.values() for call in reading.calls]
    try:
        answers = iter(nodes.call(relayer_nodes, calls, chain_id) if calls else [])
    except nodes.NodesUnreachable as error:
        raise errors.NodesUnreachable(f"No node has answered: {error}.") from None
    outcomes: dict[str, Any] = {}
    for name, reading in readings.items():
        own = [next(answers) for _ in reading.calls]
        try:
            outcomes[name] = reading.read(own)
        except errors.RpcError as error:
            outcomes[name] = error
    return outcomes


def _settle(slot: Slot[Any], reading: Reading, outcome: Any) -> None:
    if isinstance(outcome, errors.RpcError):
        slot.fail(outcome)
    else:
        slot.fill(outcome, reading.seconds(outcome))


def _wait(slot: Slot[Any]) -> Any:
    """Give what another reads, or why there is none; one that takes long is not waited for."""
    try:
        return slot.wait(PATIENCE_SECONDS)
    except (errors.RpcError, Abandoned) as error:
        return error
    except WaitTimeout:
        return Abandoned()
