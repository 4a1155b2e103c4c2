"""Broadcasting committed attempts, in the order of their nonces."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from chain.broadcast.sending import Broadcast, SignedTransaction, send
from chain.networks import Mempool, Network
from chain.nodes.failover import Node
from transactions.lanes import gate
from transactions.models import Attempt
from transactions.records.crash_points import step
from transactions.records.routing import Route


@dataclass(frozen=True)
class Sent:
    """A broadcast of an attempt and its outcome."""

    attempt: Attempt
    broadcast: Broadcast


def broadcast(
    nodes: Sequence[Node],
    network: Network,
    attempts: Iterable[Attempt],
    route: Route = Route.PUBLIC,
    traceparents: Mapping[int, str] = MappingProxyType({}),
) -> list[Sent]:
    """Broadcast attempts to nodes of a route, and return each that has left with its outcome.

    The gate is asked before each call of a node. Private nodes take no batches, and nothing is copied to others.
    `traceparents` has those of transactions, by key. Only errors of the database are raised.
    """
    ordered = sorted((attempt for attempt in attempts if attempt.raw), key=lambda attempt: attempt.nonce)
    if not ordered:
        return []
    step("before_broadcast")
    one_at_a_time = network.mempool == Mempool.NONE or route is Route.PRIVATE
    signed = [SignedTransaction(bytes(each.raw), traceparents.get(each.transaction_id, "")) for each in ordered]
    allowed = partial(gate.passing, ordered)
    outcomes = send(nodes, signed, network.chain_id, one_at_a_time=one_at_a_time, allowed=allowed)
    step("broadcast")
    return [Sent(each, outcome) for each, outcome in zip(ordered, outcomes, strict=True) if outcome is not None]
