"""Filling a gap on behalf of staff: the lane closes the unused nonce in its next turn, instead of a few blocks later.

Only the wait is skipped. Whether the nonce is closed is decided by the lane, as always (`holds.noops_due`).
"""

from django.db import transaction

from chain import limits
from relayer_service.audit.recording import acted, record
from relayer_service.background.tasks import push
from transactions.lanes.prices.pricing import policy_ceiling
from transactions.lanes.wake import wake_lane
from transactions.models import IS_IN_FLIGHT, Hold, Lane, Transaction, Waiting
from transactions.records.networks import network_of
from transactions.requests.actions import Refused
from transactions.settlement.nonces.holds import GAP_BLOCKS, lock_lanes


def fill_refusal(lane: Lane, nonce: int) -> str:
    """Return why the lane must not close a nonce now, or "" if it may."""
    if lane.relayer is None:
        return "The lane has no relayer whose signer could sign."
    if lane.holds and Hold.LOST_COMMITS not in lane.holds:
        return "The lane is held."
    if Hold.CHAIN in lane.holds:
        return "The chain was replaced."
    if lane.waiting == Waiting.NODES:
        return "No node answers, so that the nonce may be used already."
    if lane.chain_nonce is None or lane.next_nonce is None or lane.watch is None or lane.watch.head_number is None:
        return "The chain was not read yet."
    if lane.watch.head_number < GAP_BLOCKS:
        return f"The chain has fewer than {GAP_BLOCKS} blocks."
    if nonce != lane.chain_nonce or nonce >= lane.next_nonce:
        return f"The chain expects nonce {lane.chain_nonce}."
    rows = Transaction.objects.filter(lane=lane, epoch=lane.epoch)
    if rows.filter(nonce=nonce).exists():
        return f"A transaction has nonce {nonce}."
    if not rows.filter(IS_IN_FLIGHT, nonce__gt=nonce).exists():
        return "No transaction with a higher nonce is in flight."
    return ""


def fill_gap(lane_pk: int, nonce: int, reason: str = "") -> None:
    """Request a no-op at an unused nonce in the next turn of a lane; raise `Refused` if it must not be closed."""
    with transaction.atomic():
        lanes = lock_lanes([lane_pk])
        if not lanes:
            raise Refused("The lane was deleted.")
        (lane,) = lanes
        if text := fill_refusal(lane, nonce):
            raise Refused(text)
        # Known, or else it is refused.
        head = (lane.watch.head_number if lane.watch else None) or 0
        lane.gap_block = max(0, head - GAP_BLOCKS)
        lane.save(update_fields=["gap_block"])
        record([acted(lane, f"Filled the hole at nonce {nonce}. {reason}".strip())])
        push(wake_lane, lane.pk)


def fill_cost(lane: Lane) -> int:
    """Return what a no-op that needs the gas of a transfer can cost at most, in wei."""
    assert lane.relayer is not None
    ceiling = policy_ceiling(network_of(lane.relayer), lane.relayer.policies, is_noop=True)
    return limits.TRANSFER_GAS * ceiling.price
