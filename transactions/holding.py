"""Holding and releasing lanes on behalf of staff, one or many, each with its audit entry."""

from __future__ import annotations

from collections.abc import Callable, Collection

from django.db import transaction

from relayer_service.background.tasks import push
from relayer_service.storage.selections import Selection
from transactions.models import Hold, Lane
from transactions.settlement import holds
from transactions.settlement.releasing import release
from transactions.tasks import wake_lane

# Lanes that are locked together: few enough that their workers do not wait long.
BATCH_SIZE = 100
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


def lock_lanes(keys: Collection[int]) -> list[Lane]:
    """Lock lanes as the engine does, in an order in which two callers cannot block each other."""
    locked = Lane.objects.select_for_update(no_key=True, of=("self",)).select_related("relayer__notification")
    return list(locked.filter(pk__in=keys).order_by("pk"))


def hold_lanes(selection: Selection, reason: str) -> int:
    """Hold lanes that staff do not hold already; return how many."""
    return _change_each(selection, lambda lane: holds.hold(lane, Hold.OPERATOR, reason))


def doubt_lanes(selection: Selection, details: str) -> int:
    """Hold lanes whose commits may have been lost, also those that are held for that already; return how many."""
    return _change_each(selection, lambda lane: holds.doubt_commits(lane, details))


def release_lane(lane: Lane, ended: Collection[str], reason: str) -> bool:
    """End these holds of a lane whose row is locked, and have it take a turn; return whether it had one of them."""
    # Each of them: any() would stop at the first one.
    results = [release(lane, Hold(each), reason) for each in ended]
    if any(results):
        push(wake_lane, lane.pk)
    return any(results)


def release_lanes(selection: Selection, ended: Collection[str], reason: str) -> int:
    """End these holds of lanes; return how many lanes had one of them."""
    return _change_each(selection, lambda lane: release_lane(lane, ended, reason))


def _change_each(selection: Selection, change: Callable[[Lane], bool | None]) -> int:
    """Lock and change lanes in batches; return how many, without those for which the change returns False."""
    done = 0
    for batch in selection.batches(BATCH_SIZE):
        with transaction.atomic():
            done += sum(change(lane) is not False for lane in lock_lanes(batch))
    return done
