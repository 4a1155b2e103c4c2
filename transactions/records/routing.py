"""Which nodes an attempt goes to: the public ones, or private ones alone. Pure functions.

Whether an attempt is private is decided when it is signed, and stored with it: a policy that is switched off later
reveals nothing.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from transactions.models import NOOPS, Attempt, Lane, Transaction

# Private nodes drop a transaction after 25 blocks. They do not mine a no-op that cancels it, but keep it from being
# mined; when the transaction is gone, the no-op goes to public nodes: it reveals nothing.
REBROADCAST_BLOCKS = 20
NOOP_BLOCKS = 26
NO_PRIVATE_NODES = "the relayer's policy private_transactions is true, and this network has no private nodes"
UNREADABLE_NODES = "The RPC URLs of the relayer cannot be decrypted."
# No-ops that never go to private nodes: none of these has a transaction with their nonce.
PUBLIC_NOOPS = {Attempt.Purpose.CLOSE, Attempt.Purpose.GAP}


class Route(StrEnum):
    PUBLIC = "public"
    PRIVATE = "private"


def is_private(row: Transaction, policies: Mapping[str, Any]) -> bool:
    """Return whether the payload of a row is kept from public nodes: it was accepted so, or the policy says so now."""
    return row.is_private or bool(policies.get("private_transactions"))


def private_since(
    purpose: str,
    row: Transaction | None,
    policies: Mapping[str, Any],
    attempts: Sequence[Attempt],
    block: int,
    fallback_blocks: int | None,
) -> int | None:
    """Return the block since which private nodes have what is about to be signed; None if it goes to public nodes.

    `attempts` are those at the nonce of the row, the newest last. A higher price goes where the payload or the no-op
    went before, and its blocks count from then on.
    """
    if row is None or purpose in PUBLIC_NOOPS:
        return None
    is_noop = purpose in NOOPS
    noops = [each for each in attempts if each.purpose in NOOPS]
    payloads = [each for each in attempts if each.purpose not in NOOPS]
    earlier = noops if is_noop else [each for each in payloads if each.payload_version == row.payload_version]
    if earlier:
        return earlier[0].private_since
    if is_noop:
        # What public nodes have is canceled there.
        are_private = [choose(each, fallback_blocks, block) is Route.PRIVATE for each in payloads]
        return block if are_private and all(are_private) else None
    return block if is_private(row, policies) else None


def choose(attempt: Attempt, fallback_blocks: int | None, head: int | None) -> Route:
    """Return the nodes that an attempt goes to while this is the head block."""
    if attempt.private_since is None:
        return Route.PUBLIC
    limit = NOOP_BLOCKS if attempt.purpose in NOOPS else fallback_blocks
    if limit is None or head is None or head - attempt.private_since < limit:
        return Route.PRIVATE
    return Route.PUBLIC


def head_block(lane: Lane) -> int | None:
    known = lane.watch.head_number if lane.watch else None
    return lane.chain_block if known is None else known
