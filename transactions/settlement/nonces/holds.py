"""Holds of lanes: setting and ending them, and whether a nonce can be committed.

A held lane gives no request a nonce; what is in flight is still broadcast, bumped and settled. The holds of a lane are
a set: ending one does not end another.
"""

import logging
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

from django.db import transaction

from notifications.emitting import emit
from relayer_service.audit import actors
from relayer_service.audit.recording import acted, record
from relayer_service.database.clock import database_now, timestamp
from relayer_service.storage.selections import Selection
from relayers.pausing import event_data
from transactions.events import RELAYER_HELD, RELAYER_RELEASED, LaneHoldData
from transactions.models import Hold, Lane, Transaction
from transactions.records.networks import network_of
from transactions.settlement.nonces import witness
from transactions.settlement.nonces.database_identity import database_identity

logger = logging.getLogger(__name__)

# Blocks after which a nonce that nobody uses is closed.
GAP_BLOCKS = 3
# Of a network that does not define it.
DEFAULT_WINDOW = 16
# Lanes that are locked together: few enough that their workers do not wait long.
BATCH_SIZE = 100


def hold(lane: Lane, reason: Hold, details: str = "", **facts: Any) -> bool:
    """Add a hold to a lane whose row is locked, with its event and audit entry; return False if it has it already."""
    if reason in lane.holds:
        return False
    now = database_now()
    entry = {"since": timestamp(now), "details": details, **facts}
    lane.holds, lane.held_since = {**lane.holds, reason.value: entry}, lane.held_since or now
    lane.save(update_fields=["holds", "held_since"])
    logger.warning("The lane %s is held: %s. %s", lane, reason.label, details)
    record([acted(lane, f"Held: {reason.label}. {details}".strip())])
    _announce(lane, RELAYER_HELD, reason, details)
    return True


def end_hold(lane: Lane, reason: Hold, why: str = "") -> bool:
    """End one hold of a lane whose row is locked; return False if it does not have it."""
    if reason not in lane.holds:
        return False
    lane.holds = {name: entry for name, entry in lane.holds.items() if name != reason}
    starts = (datetime.fromisoformat(entry["since"]) for entry in lane.holds.values())
    lane.held_since = min(starts, default=None)
    columns = ["holds", "held_since"]
    if reason == Hold.LOST_COMMITS:
        # From now on, this server is the one whose commits are known.
        lane.seal_below, lane.database_identity = None, database_identity()
        columns += ["seal_below", "database_identity"]
    lane.save(update_fields=columns)
    logger.info("A hold of the lane %s ended: %s. %s", lane, reason.label, why)
    record([acted(lane, f"Released: {reason.label}. {why}".strip())])
    _announce(lane, RELAYER_RELEASED, reason, why)
    return True


def note(lane: Lane, reason: Hold, **facts: Any) -> None:
    """Change facts of a hold that a lane has, without saving it: the caller does."""
    entry = lane.holds[reason]
    if entry != entry | facts:
        lane.holds = {**lane.holds, reason.value: entry | facts}


def doubt_commits(lane: Lane, details: str) -> None:
    """Hold a lane whose row is locked, as commits may have been lost; if it is held for that, its seal starts over."""
    facts = {"identity": database_identity(), "block": None}
    if not hold(lane, Hold.LOST_COMMITS, details, **facts):
        lane.holds = {**lane.holds, Hold.LOST_COMMITS.value: lane.holds[Hold.LOST_COMMITS] | facts}
    lane.seal_below = None
    lane.save(update_fields=["holds", "seal_below"])


def allows_nonces(lane: Lane) -> bool:
    """Return whether a request may get a nonce in this transaction: no hold, and a database that lost no commits.

    The row of the lane is locked, and was read after the lock.
    """
    return lane.next_nonce is not None and allows_closing(lane)


def allows_closing(lane: Lane) -> bool:
    """Return whether a row without a nonce may be closed in this transaction: it cannot own what is on the chain.

    Unlike a nonce, that does not depend on first contact. The row of the lane is locked, and was read after the lock.
    """
    if lane.holds or witness.is_ahead(lane):
        return False
    # An empty one was stored before the server revealed its identity: the next look stores it.
    return not lane.database_identity or lane.database_identity == database_identity()


def noops_due(lane: Lane) -> list[int]:
    """Return the nonces, ascending, that the lane must close with no-ops now: gaps, and the nonces of a seal.

    The row of the lane is locked: no nonce is returned that a row has.
    """
    if lane.next_nonce is None or lane.chain_nonce is None or Hold.CHAIN in lane.holds:
        return []
    due, head = set(), lane.watch.head_number if lane.watch else None
    has_gap = lane.gap_block is not None and head is not None and head >= lane.gap_block + GAP_BLOCKS
    # Also while a lane is sealed: nothing above a gap becomes final.
    if has_gap and (not lane.holds or Hold.LOST_COMMITS in lane.holds):
        due.add(lane.chain_nonce)
    # Nonces below the chain's were used by transactions that are unknown until they are final.
    if lane.seal_below is not None and lane.next_nonce >= lane.chain_nonce:
        due |= {*range(lane.next_nonce, min(lane.seal_below, lane.chain_nonce + window_of(lane)))}
    if not due:
        return []
    taken = Transaction.objects.filter(lane=lane, epoch=lane.epoch, nonce__in=due)
    return sorted(due - {*taken.values_list("nonce", flat=True)})


def window_of(lane: Lane) -> int:
    """Return the maximum of nonces in flight."""
    network = network_of(lane.relayer) if lane.relayer else None
    return lane.window or int(getattr(network, "window", DEFAULT_WINDOW))


def _announce(lane: Lane, event: Any, reason: Hold, details: str) -> None:
    if lane.relayer is not None:
        data = LaneHoldData(
            **event_data(lane.relayer), actor=str(actors.current()), reason=reason.value, details=details
        )
        emit(event, lane.relayer.notification, data)


def hold_for_lost_commits(selection: Selection, details: str) -> int:
    """Hold lanes whose commits may have been lost, also those that are held for that already; return how many."""
    return change_lanes(selection, lambda lane: doubt_commits(lane, details))


def change_lanes(selection: Selection, change: Callable[[Lane], bool | None]) -> int:
    """Lock and change lanes in batches; return how many, without those for which the change returns False."""
    done = 0
    for batch in selection.batches(BATCH_SIZE):
        with transaction.atomic():
            done += sum(change(lane) is not False for lane in lock_lanes(batch))
    return done


def lock_lanes(keys: Collection[int]) -> list[Lane]:
    """Lock lanes as the engine does, in an order in which two callers cannot block each other."""
    locked = Lane.objects.select_for_update(no_key=True, of=("self",)).select_related("relayer__notification")
    return list(locked.filter(pk__in=keys).order_by("pk"))
