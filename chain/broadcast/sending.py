"""Broadcasting signed transactions. Unlike a read, a broadcast does not fail: each transaction has an outcome.

Whatever the outcome, the same bytes can be broadcast again. An unknown outcome means that a node may have them.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from chain.broadcast import send_attempts
from chain.broadcast.send_attempts import WITHHELD, Allowed, SignedTransaction
from chain.broadcast.send_outcomes import Broadcast, NodeReply, failed
from chain.broadcast.send_texts import Outcome
from chain.broadcast.spreading import spread
from chain.nodes import attempts
from chain.nodes.answers import Fault
from chain.nodes.failover import MIN_SHARE_SECONDS, Node, in_order, note

__all__ = ["Broadcast", "Outcome", "SignedTransaction", "send"]

# A second one, so that transactions spread even if the first keeps them to itself.
BROADCAST_NODES = 2
NOT_SENT = failed(Fault("no RPC URL is configured"))
# Another node may accept what one refuses, has no room for or considers too expensive.
UNSETTLED = {Outcome.UNKNOWN, Outcome.REFUSED, Outcome.FEE_CAP, Outcome.POOL_LIMIT}
# What a node that does not fail is not expected to accept later: a pool has room again, words without a class stay.
REJECTED = UNSETTLED - {Outcome.POOL_LIMIT}


def send(
    nodes: Sequence[Node],
    transactions: Sequence[SignedTransaction],
    chain_id: int | None,
    *,
    one_at_a_time: bool = False,
    allowed: Allowed = None,
) -> list[Broadcast | None]:
    """Broadcast signed transactions in the order of their nonces, and return the outcome of each.

    What one node leaves unsettled is sent to the next; of several outcomes the best counts. When all are settled, the
    batch is copied to a second node in the background, unless the chain has no mempool (`one_at_a_time`). What is not
    `allowed` to leave when a node is about to be called is not sent; without any call, its outcome is None.
    """
    deadline = time.monotonic() + attempts.DEADLINE_SECONDS
    urls = in_order(nodes, chain_id=chain_id)
    everything, node_count = range(len(transactions)), len(urls)
    replies = [NOT_SENT] * len(transactions)
    rejections = [0] * len(transactions)
    answered = 0
    while urls and (unsettled := [number for number in everything if replies[number].outcome in UNSETTLED]):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        share = max(MIN_SHARE_SECONDS, left / len(urls))
        # The second node gets the whole batch: those that the first accepted may not have reached it.
        numbers = unsettled if one_at_a_time or answered >= BROADCAST_NODES else everything
        url, batch = urls.pop(0), [transactions[number] for number in numbers]
        found = send_attempts.attempt(
            url, batch, chain_id, min(share, left), one_at_a_time=one_at_a_time, allowed=allowed
        )
        for fault in [reply.fault for reply in found if reply.fault][:1]:
            note(url, fault, chain_id)
        answered += any(reply.fault is None and reply is not WITHHELD for reply in found)
        for number, reply in zip(numbers, found, strict=True):
            replies[number] = min(replies[number], reply, key=_rank)
            rejections[number] += reply is not WITHHELD and reply.fault is None and reply.outcome in REJECTED
    if not one_at_a_time and transactions:
        spread(urls, BROADCAST_NODES - answered, transactions, chain_id, allowed)
    return [
        None if reply is WITHHELD else replace(reply.broadcast, is_rejected_by_all=0 < node_count == count)
        for reply, count in zip(replies, rejections, strict=True)
    ]


def _rank(reply: NodeReply) -> int:
    """Return how much a reply proves; the lowest counts.

    A refusal is final only if every node that answers refuses: any other answer ranks before it.
    """
    if reply is NOT_SENT or reply is WITHHELD:
        return 7 if reply is NOT_SENT else 6
    if reply.outcome in {Outcome.ACCEPTED, Outcome.KNOWN}:
        return 0
    if reply.outcome is Outcome.REFUSED:
        return 4
    if reply.outcome is Outcome.UNKNOWN:
        return 5 if reply.fault else 3
    return 2 if reply.outcome in UNSETTLED else 1
