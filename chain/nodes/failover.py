"""Calls to a chain: the nodes of a relayer are tried in a random order by weight until one answers."""

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chain.errors import NodesUnreachable
from chain.nodes import attempts, breakers, head
from chain.nodes.answers import NO_CHAIN_ID, Fault, member_quantity, quantity
from chain.nodes.attempts import Call, attempt
from relayer_service.background.pools import map_threads
from relayer_service.net.addresses import mask
from relayer_service.observability.logs import RepeatedWarnings

logger = logging.getLogger(__name__)
logger.addFilter(RepeatedWarnings())

# A node's URL and its weight.
Node = tuple[str, int]

# No node can answer in less.
MIN_SHARE_SECONDS = 0.05

# Raises a fault if the answers of a node cannot be used.
Check = Callable[[list[Any]], None]


def call(
    nodes: Sequence[Node], calls: Sequence[Call], chain_id: int | None, check: Check = lambda found: None
) -> list[Any]:
    """Return the answers of the first node that answers and passes the check: values, or errors of the chain."""
    return next(answers(nodes, calls, chain_id, check))


def answers(
    nodes: Sequence[Node], calls: Sequence[Call], chain_id: int | None, check: Check = lambda found: None
) -> Iterator[list[Any]]:
    """Yield the answers of one node after the other; raise `NodesUnreachable` if none answers.

    All calls go to the same node, so that they describe the same state. The remaining time is divided among the
    remaining nodes, so that one that hangs does not use up the time of one that would answer.
    """
    deadline = time.monotonic() + attempts.DEADLINE_SECONDS
    urls = in_order(nodes, chain_id=chain_id)
    reasons, answered, head_times = set(), False, list[int | None]()
    for position, url in enumerate(urls):
        left = deadline - time.monotonic()
        if left <= 0:
            reasons.add("the deadline has passed")
            head_times.append(None)
            break
        share = max(MIN_SHARE_SECONDS, left / (len(urls) - position))
        try:
            found = attempt(url, calls, chain_id, min(attempts.ATTEMPT_SECONDS, share, left))
            check(found)
        except Fault as fault:
            note(url, fault, chain_id)
            reasons.add(str(fault))
            head_times.append(fault.head_time)
        else:
            answered = True
            yield found
    if not answered:
        text = "; ".join(sorted(reasons)) or "no RPC URL is configured"
        raise NodesUnreachable(text, newest_head(head_times))


def newest_head(times: Sequence[int | None]) -> int | None:
    """Return the time of the newest head block if all nodes have one that is too old, or else None."""
    known = [each for each in times if each is not None]
    return max(known) if known and len(known) == len(times) else None


def in_order(
    nodes: Sequence[Node], chance: Callable[[], float] = random.random, *, chain_id: int | None = None
) -> list[str]:
    """Return URLs in a random order by weight, those that are paused or taken out last."""
    # Weighted random order: the probability that a URL has the highest value is proportional to its weight.
    drawn = sorted(((chance() ** (1 / weight), url) for url, weight in nodes if weight > 0), reverse=True)
    urls = list(dict.fromkeys(url for _, url in drawn))
    # The order of one needs no round trip to the shared cache.
    avoided = breakers.avoided(urls, chain_id) if len(urls) > 1 else set()
    return sorted(urls, key=lambda url: url in avoided)


def note(url: str, fault: Fault, chain_id: int | None = None) -> None:
    """Log a fault of a node, and update its circuit breaker."""
    logger.warning("The node %s failed: %s", mask(url), fault, extra={"fields": {"node": mask(url)}})
    if fault.is_client_error:
        return
    if fault.wrong_chain:
        breakers.pause_for_chain(url, chain_id, fault.pause_seconds)
    elif fault.pause_seconds:
        breakers.pause(url, fault.pause_seconds)
    else:
        breakers.note_failure(url)


@dataclass(frozen=True)
class NodeStatus:
    url: str
    weight: int
    milliseconds: int | None = None
    head_block: int | None = None
    error: str = ""
    paused: bool = False


def status(url: str, chain_id: int | None) -> NodeStatus:
    """Return the status of a node; its head block is read with its time."""
    return _status((url, 1), chain_id, bool(breakers.paused([url], chain_id)), head.CALL)


def statuses(nodes: Sequence[Node], chain_id: int | None) -> list[NodeStatus]:
    """Return the status of every node, read concurrently."""
    paused = breakers.paused((url for url, _ in nodes), chain_id)
    return map_threads(lambda node: _status(node, chain_id, node[0] in paused), nodes)


def _status(node: Node, chain_id: int | None, paused: bool, call: Call = head.NUMBER_CALL) -> NodeStatus:
    url, weight = node
    started = time.monotonic()
    try:
        (answer,) = attempt(url, [call], chain_id, attempts.ATTEMPT_SECONDS)
    except Fault as fault:
        return NodeStatus(mask(url), weight, error=str(fault), paused=paused)
    milliseconds = round((time.monotonic() - started) * 1000)
    block = member_quantity(answer, "number") if call is head.CALL else quantity(answer)
    error = head.NO_HEAD if block is None else ""
    return NodeStatus(mask(url), weight, milliseconds, block, error, paused)


def chain_ids(urls: Sequence[str]) -> list[int | str]:
    """Return the chain ID of every node, or the fault, read concurrently."""
    return map_threads(_chain_id, urls)


def _chain_id(url: str) -> int | str:
    try:
        (answer,) = attempt(url, [Call("eth_chainId")], None, attempts.ATTEMPT_SECONDS)
    except Fault as fault:
        return str(fault)
    chain_id = quantity(answer)
    return NO_CHAIN_ID if chain_id is None else chain_id
