"""Broadcasting committed attempts, in the order of their nonces."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from chain.networks import Mempool, Network
from chain.nodes import Node
from chain.sending import Broadcast, Outcome, SignedTransaction, send
from transactions.lanes.monitoring import is_private_rebroadcast_due, is_rebroadcast_due
from transactions.models import Attempt
from transactions.routing import Route
from transactions.steps import step

# A node that does not queue nonces gets them again, from the lowest.
NONCE_TOO_HIGH_PAUSE = timedelta(seconds=1)


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
    """Broadcast attempts to nodes of a route, and return each with its outcome; this raises nothing.

    Private nodes take no batches, and nothing is copied to others. `traceparents` has those of transactions, by key.
    """
    ordered = sorted((attempt for attempt in attempts if attempt.raw), key=lambda attempt: attempt.nonce)
    if not ordered:
        return []
    step("before_broadcast")
    one_at_a_time = network.mempool == Mempool.NONE or route is Route.PRIVATE
    signed = [SignedTransaction(bytes(each.raw), traceparents.get(each.transaction_id, "")) for each in ordered]
    outcomes = send(nodes, signed, network.chain_id, one_at_a_time=one_at_a_time)
    step("broadcast")
    return [Sent(*each) for each in zip(ordered, outcomes, strict=True)]


def rebroadcasts(
    attempts: Sequence[Attempt],
    network: Network,
    now: datetime,
    route: Route = Route.PUBLIC,
    head: int | None = None,
) -> list[Attempt]:
    """Return the attempts of a route that were never broadcast or are due again; all of them if a node has a gap."""
    if any(_has_gap(attempt, now) for attempt in attempts):
        return [*attempts]
    if route is Route.PRIVATE:
        return [attempt for attempt in attempts if is_private_rebroadcast_due(attempt, network, now, head)]
    return [attempt for attempt in attempts if is_rebroadcast_due(attempt, network, now)]


def _has_gap(attempt: Attempt, now: datetime) -> bool:
    last = attempt.last_broadcast_at
    return attempt.outcome == Outcome.NONCE_TOO_HIGH and last is not None and now - last >= NONCE_TOO_HIGH_PAUSE
