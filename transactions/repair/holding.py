"""Holding and releasing lanes on behalf of staff, one or many, each with its audit entry."""

from collections.abc import Collection

from relayer_service.background.tasks import push
from relayer_service.storage.selections import Selection
from transactions.lanes.wake import wake_lane
from transactions.models import ChainWatch, Hold, Lane
from transactions.settlement.nonces import epochs, holds

# What can happen if staff end a hold that the service would end by itself once it is safe.
RISKS: dict[str, str] = {
    Hold.OPERATOR: "Staff have set this hold. Make sure that its reason no longer applies.",
    Hold.LOST_COMMITS: (
        "The database may lack transactions that were already sent. The service ends this hold once every nonce of "
        "the account is accounted for. Before that, a waiting request may be one that was sent: the payment would be "
        "made twice."
    ),
    Hold.EXTERNAL: (
        "Another program, or this service before a restore, used the account. The service ends this hold once those "
        "nonces are final. Before that, a waiting request may be one that was sent: the payment would be made twice. "
        "Transactions of the other program that are still pending can be replaced."
    ),
    Hold.CHAIN: (
        "The chain is not the one that was sent to. Confirmed transactions may be missing from it, and waiting "
        "requests are sent to the new one, even those that the old one has executed. For a local development chain, "
        "use release_lanes --new-chain."
    ),
}


def hold_lanes(selection: Selection, reason: str) -> int:
    """Hold lanes that staff do not hold already; return how many."""
    return holds.change_lanes(selection, lambda lane: holds.hold(lane, Hold.OPERATOR, reason))


def release_lane(lane: Lane, ended: Collection[str], reason: str) -> bool:
    """End these holds of a lane whose row is locked, and have it take a turn; return whether it had one of them."""
    # Each of them: any() would stop at the first one.
    results = [_release(lane, Hold(each), reason) for each in ended]
    if any(results):
        push(wake_lane, lane.pk)
    return any(results)


def release_lanes(selection: Selection, ended: Collection[str], reason: str) -> int:
    """End these holds of lanes; return how many lanes had one of them."""
    return holds.change_lanes(selection, lambda lane: release_lane(lane, ended, reason))


def _release(lane: Lane, reason: Hold, why: str) -> bool:
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
