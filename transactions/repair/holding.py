"""Holding and releasing lanes on behalf of staff, one or many, each with its audit entry."""

from __future__ import annotations

from collections.abc import Collection

from relayer_service.background.tasks import push
from relayer_service.storage.selections import Selection
from transactions.lanes.wake import wake_lane
from transactions.models import Hold, Lane
from transactions.settlement.nonces import holds
from transactions.settlement.nonces.releasing import release

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
    results = [release(lane, Hold(each), reason) for each in ended]
    if any(results):
        push(wake_lane, lane.pk)
    return any(results)


def release_lanes(selection: Selection, ended: Collection[str], reason: str) -> int:
    """End these holds of lanes; return how many lanes had one of them."""
    return holds.change_lanes(selection, lambda lane: release_lane(lane, ended, reason))
