"""What is known of a chain through a set of nodes, and whether it is still the same chain."""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from chain.networks import Network, networks
from chain.nodes import plausibility
from chain.nodes.failover import Node
from relayer_service.database.clock import database_now, timestamp
from relayer_service.database.ttl_cache import TTLCache
from transactions.models import ChainWatch, Hold, Lane, Status, Transaction
from transactions.settlement.nonces import epochs, holds
from transactions.settlement.reading import ChainView

logger = logging.getLogger(__name__)

# The network of a local development node, such as Hardhat or Anvil.
DEVELOPMENT = "hardhat"
REPLACED = "The nodes have another first block. If this is intended: manage.py release_lanes --new-chain"
# The anchor is written now and then: any final block will do.
ANCHOR_STEP = 64
# Heads that were not believed, by watch and URL, while no node reported another: the first, and its time.
_claims: TTLCache[int, Mapping[str, tuple[int, datetime]]] = TTLCache()


def find_watch(chain_id: int, relayer_nodes: Sequence[Node]) -> ChainWatch:
    """Return the row of a chain and its nodes. URLs may contain keys, so only their digest is stored."""
    urls = "\n".join(sorted({url for url, _ in relayer_nodes}))
    digest = hashlib.sha256(urls.encode()).hexdigest()
    return ChainWatch.objects.get_or_create(chain_id=chain_id, nodes_digest=digest)[0]


def can_be_replaced(network: Network) -> bool:
    """Return whether another chain may run under the same chain ID: on development nodes and unknown networks."""
    return network.name == DEVELOPMENT or network.name not in networks()


def highest_head(watch: ChainWatch, network: Network, now: datetime) -> int | None:
    """Return the head that nodes must be near; None if it is too old, as one node may have been wrong about it."""
    is_stale = watch.head_at is None or now - watch.head_at > plausibility.patience(network)
    return None if is_stale else watch.head_number


def plausible_head(watch: ChainWatch | None, network: Network, now: datetime) -> int | None:
    """Return the highest head that one node is believed; None if any is: the first one, or on a development chain."""
    if watch is None or watch.head_number is None or watch.head_at is None or can_be_replaced(network):
        return None
    return plausibility.highest_head(network, watch.head_number, watch.head_at, now)


def has_risen(watch: ChainWatch, network: Network, view: ChainView) -> bool:
    """Return whether a node whose head is not believed has reported rising ones for long, and no node another."""
    head, patience, now = view.head.number, plausibility.patience(network), database_now()
    claims = _claims.get(watch.pk) or {}
    first, since = min(claims.get(view.url, (head, now)), (head, now))
    _claims.set(watch.pk, {**claims, view.url: (first, since)}, patience.total_seconds())
    return head > first and now - since >= patience


def is_other_chain(watch: ChainWatch, view: ChainView) -> bool:
    """Return whether the node has another chain than before: another first block. Heights do not matter."""
    return bool(watch.genesis_hash and view.genesis_hash and view.genesis_hash != watch.genesis_hash)


def starts_epochs(network: Network) -> bool:
    """Return whether a replaced chain needs no decision of staff: whoever restarts a local node wants to go on."""
    return bool(settings.LOCAL) and network.name == DEVELOPMENT


def replace(watch: ChainWatch, view: ChainView, network: Network) -> set[int]:
    """Start new epochs on a local development chain, or else hold the lanes for staff; return those that changed.

    All lanes of the watch, whoever has their leases: they share what is known of the chain.
    """
    locked = Lane.objects.filter(watch=watch).select_for_update(no_key=True, of=("self",))
    lanes = list(locked.select_related("relayer__notification", "watch").order_by("pk"))
    # After the lanes, as those who release one do. Another worker may have replaced the chain since it was read: then
    # what is signed by now is on the new one.
    current = ChainWatch.objects.select_for_update().get(pk=watch.pk)
    if not is_other_chain(current, view):
        return set()
    changed = {lane.pk for lane in lanes if leave(lane, current, network, view, current)}
    if starts_epochs(network):
        epochs.forget_chain(watch.pk)
    return changed


def leave(lane: Lane, before: ChainWatch, network: Network, view: ChainView, watch: ChainWatch) -> bool:
    """Start a new epoch of a lane whose chain was replaced, or hold it for staff; return False if it is held.

    `before` is what was known of its chain; `watch` is the chain that its nodes have now.
    """
    if starts_epochs(network):
        epochs.start_epoch(lane)
        return True
    facts = {"genesis": before.genesis_hash, "found": view.genesis_hash, "found_by": watch.pk}
    if holds.hold(lane, Hold.CHAIN, REPLACED, **facts):
        return True
    holds.note(lane, Hold.CHAIN, found=view.genesis_hash, found_by=watch.pk)
    lane.save(update_fields=["holds"])
    return False


def store(watch: ChainWatch, view: ChainView, highest: int | None, network: Network) -> None:
    """Store the head and, now and then, the anchor. A lower head is stored only if the highest one is stale."""
    if not view.is_believed:
        return
    _claims.remove(watch.pk)
    columns: dict[str, Any] = {}
    is_new = view.head.number != watch.head_number if highest is None else view.head.number > highest
    if is_new:
        now = database_now()
        if highest is not None and watch.head_at is not None:
            now = plausibility.anchor_time(network, watch.head_at, view.head.number - highest, now)
        columns |= {"head_number": view.head.number, "head_at": now}
    if view.genesis_hash and not watch.genesis_hash:
        columns["genesis_hash"] = view.genesis_hash
    columns |= _anchor(watch, view)
    if columns:
        ChainWatch.objects.filter(pk=watch.pk).update(**columns)


def note_halt(watch: ChainWatch, network: Network, head_time: int | None, rows: Iterable[Transaction] = ()) -> None:
    """Store since when a chain has had no new block, if that is too long, or that it has one.

    Without the time of the head, it stays as it was. Where blocks are mined on demand, a transaction must be waiting
    for one, and its price not be the reason.
    """
    if head_time is None:
        return
    limit, since = database_now() - plausibility.halt_limit(network), None
    is_due = network.max_head_age_seconds is not None or any(
        row.status == Status.SUBMITTED and row.submitted_at and row.submitted_at < limit and not row.status_reason
        for row in rows
    )
    if is_due:
        at = datetime.fromtimestamp(min(head_time, plausibility.MAX_TIMESTAMP), UTC)
        since = at if at < limit else None
    # Nodes may have different head blocks: the first one stays.
    if (since is None) != (watch.halted_since is None):
        ChainWatch.objects.filter(pk=watch.pk).update(halted_since=since)
        if since is not None:
            logger.error("Chain %s has had no new block since %s.", watch.chain_id, timestamp(since))


def _anchor(watch: ChainWatch, view: ChainView) -> dict[str, Any]:
    """Return a new anchor, if it is due. If the anchor block is missing, the node is behind: that is not a change."""
    newest = max((number for number in view.hashes if view.is_final(number)), default=None)
    if watch.anchor_number is not None:
        found = view.hashes.get(watch.anchor_number)
        if found is not None and found != watch.anchor_hash:
            # Mined rows go back to submitted by their own blocks, and every nonce from the chain's count on is
            # broadcast again. Nothing is failed.
            logger.critical("Chain %s replaced its final block %s.", watch.chain_id, watch.anchor_number)
            return {"anchor_number": watch.anchor_number, "anchor_hash": found}
        if newest is None or newest < watch.anchor_number + ANCHOR_STEP:
            return {}
    return {} if newest is None else {"anchor_number": newest, "anchor_hash": view.hashes[newest]}
