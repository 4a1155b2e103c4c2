"""Ending holds on behalf of staff: the chain is as it was, so what they accept is stored, and holds nothing again."""

from __future__ import annotations

from transactions.models import ChainWatch, Hold, Lane
from transactions.settlement.nonces import epochs, holds


def release(lane: Lane, reason: Hold, why: str) -> bool:
    """End a hold of a lane whose row is locked, and accept what caused it; return False if it does not have it."""
    entry = lane.holds.get(reason)
    if entry is None:
        return False
    if reason == Hold.EXTERNAL and (used_below := entry.get("used_below")) is not None:
        # No nonce is skipped: a request that loses one is queued again.
        lane.accepted_below = max(used_below, lane.accepted_below or 0)
        lane.save(update_fields=["accepted_below"])
    elif reason == Hold.CHAIN:
        _accept_chain(lane, entry.get("found_by"), entry.get("found", ""))
    return holds.end_hold(lane, reason, why)


def _accept_chain(lane: Lane, watch_pk: int | None, genesis_hash: str) -> None:
    """Accept the chain that the nodes have. The other lanes that use them stay held until they are released."""
    for name in epochs.READINGS:
        setattr(lane, name, None)
    lane.watch = None if watch_pk is None else ChainWatch.objects.filter(pk=watch_pk).first()
    lane.save(update_fields=[*epochs.READINGS, "watch"])
    if lane.watch is not None and lane.watch.genesis_hash != genesis_hash:
        epochs.forget_chain(lane.watch.pk, genesis_hash)
