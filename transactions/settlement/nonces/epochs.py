"""A new epoch of a lane: its chain was replaced by another one, on which its nonces start over."""

from django.db.models import Exists, OuterRef

from transactions.changes import Changes, lock_rows
from transactions.models import IS_OPEN, IS_PENDING, Attempt, ChainWatch, Hold, Lane, Transaction
from transactions.records.states import Cause
from transactions.settlement.nonces import holds

REPLACED = "The chain was replaced by another one, on which this transaction was not sent."
# What a lane was read from the chain, and the nonces that this decided.
READINGS = (
    "chain_nonce", "chain_block", "final_nonce", "final_block", "search_block", "searched_block", "search_again_at",
    "gap_block", "head_since",
)  # fmt: skip
NONCES = ("first_nonce", "next_nonce", "seal_below", "accepted_below")


def start_epoch(lane: Lane) -> None:
    """Start a new epoch of a lane whose row is locked: what was signed is failed, what was not is sent there.

    Only for development chains: what was signed could still be executed on the old chain.
    """
    signed = Exists(Attempt.objects.filter(transaction=OuterRef("pk")))
    rows = Transaction.objects.filter(IS_OPEN, lane=lane)
    changes = Changes()
    for row in lock_rows(rows.filter(signed)).values():
        changes.move(row, Cause.CHAIN_REPLACED, REPLACED)
    changes.save()
    lane.epoch += 1
    Transaction.objects.filter(IS_PENDING, lane=lane).update(epoch=lane.epoch)
    for name in (*READINGS, *NONCES):
        setattr(lane, name, None)
    lane.save(update_fields=["epoch", *READINGS, *NONCES])
    if lane.watch_id is not None:
        forget_chain(lane.watch_id)
    for reason in (Hold.CHAIN, Hold.EXTERNAL, Hold.LOST_COMMITS):
        holds.end_hold(lane, reason, "The lane starts over on another chain.")


def forget_chain(watch_pk: int, genesis_hash: str = "") -> None:
    """Forget what is known of a chain. Without a first block, the next look accepts the first block of the nodes."""
    forgotten = {"head_number": None, "head_at": None, "anchor_number": None, "anchor_hash": ""}
    ChainWatch.objects.filter(pk=watch_pk).update(**forgotten, genesis_hash=genesis_hash)
