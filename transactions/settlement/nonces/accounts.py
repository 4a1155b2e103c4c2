"""The account of a lane against the chain: first contact, use by other programs, lost commits and gaps.

Everything here runs with the row of the lane locked, after its rows were judged by the same view.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from chain.nodes.plausibility import MAX_BLOCKS_BEHIND, is_above
from transactions.models import IN_FLIGHT, IS_OPEN, Attempt, Hold, Lane, Transaction
from transactions.settlement.judging import Watched
from transactions.settlement.nonces.epochs import NONCES, READINGS
from transactions.settlement.nonces.holds import doubt_commits, end_hold, hold, note, window_of
from transactions.settlement.reading import ChainView, Counts

# After lost commits, nonces up to two windows above every known one are sealed: one for what the lost commits may
# have signed, and one as a reorg may take back as many.
SEALED_WINDOWS = 2
# In blocks.
SEARCH_STEP = 64


def review(
    lane: Lane, watched: Sequence[Watched], view: ChainView, identity: str, now: datetime, *, is_explained: bool
) -> set[str]:
    """Change a lane as the counts of its account decide; return the columns to save.

    `identity` identifies the database server of this transaction; `is_explained`, whether attempts explain every nonce
    of a row that was used in a final block.
    """
    if not view.is_believed:
        return set()
    counts = view.counts.get(lane.address, Counts())
    before = _state(lane)
    _lower_blocks(lane, watched, view)
    if lane.next_nonce is None:
        _begin(lane, counts, view, identity)
    else:
        _count(lane, counts, view)
        _compare_identity(lane, view, identity)
        _compare_counts(lane, counts)
        _seal(lane, counts)
        _advance_search(lane, counts, is_explained)
    _find_gap(lane, watched, view)
    _note_head(lane, watched, before["chain_nonce"] != lane.chain_nonce, now)
    return {name for name, value in _state(lane).items() if before[name] != value}


def _state(lane: Lane) -> dict[str, Any]:
    names = (*READINGS, *NONCES, "searches", "database_identity", "holds")
    return {name: getattr(lane, name) for name in names}


def _lower_blocks(lane: Lane, watched: Sequence[Watched], view: ChainView) -> None:
    """Lower stored blocks above the head: a node was believed that reported one which does not exist."""
    head, doubted = view.head.number, lane.holds.get(Hold.LOST_COMMITS)
    for name in ("chain_block", "gap_block", "searched_block"):
        if is_above(getattr(lane, name), head):
            setattr(lane, name, head)
    if is_above(lane.final_block, head):
        lane.final_nonce = lane.final_block = None
    if is_above(lane.search_block, head):
        # Below every block that came since it was stored: a head that does not exist is not believed for long.
        lane.search_block, lane.searched_block = max(0, (view.final_number or 0) - 16 * SEARCH_STEP), None
    if doubted is not None and is_above(doubted.get("block"), head):
        note(lane, Hold.LOST_COMMITS, block=head)
    for name in ("private_since", "broadcast_block"):
        if high := [one.pk for each in watched for one in each.attempts if is_above(getattr(one, name), head)]:
            Attempt.objects.filter(pk__in=high).update(**{name: head})


def _begin(lane: Lane, counts: Counts, view: ChainView, identity: str) -> None:
    """First contact: begin at the account's count, once transactions of others are mined, gone or accepted by staff.

    Not before: above one that stays, the lane would close its nonce as a gap, and replace it.
    """
    latest = counts.latest
    if latest is None:
        return
    pending = max(latest, counts.pending or 0)
    if pending > max(latest, lane.accepted_below or 0):
        details = f"{pending - latest} of its transactions are pending, which this service did not send."
        hold(lane, Hold.EXTERNAL, details, used_below=pending)
        note(lane, Hold.EXTERNAL, used_below=pending)
        return
    lane.first_nonce = lane.next_nonce = pending
    lane.search_block = view.final_number or 0
    lane.database_identity = lane.database_identity or identity
    _count(lane, counts, view)
    end_hold(lane, Hold.EXTERNAL, f"The first nonce is {pending}.")


def _count(lane: Lane, counts: Counts, view: ChainView) -> None:
    """Set the counts. They only rise, unless a block at least as high says otherwise."""
    final, final_block = counts.final, counts.final_block
    if counts.latest not in {None, lane.chain_nonce} and view.head.number >= (lane.chain_block or 0):
        lane.chain_nonce, lane.chain_block = counts.latest, view.head.number
    if final is None or final_block is None or final == lane.final_nonce:
        return
    if lane.final_nonce is None or final > lane.final_nonce or final_block >= (lane.final_block or 0):
        lane.final_nonce, lane.final_block = final, final_block


def _compare_identity(lane: Lane, view: ChainView, identity: str) -> None:
    if not lane.database_identity:
        lane.database_identity = identity
    doubted = lane.holds.get(Hold.LOST_COMMITS)
    if doubted is None:
        if identity != lane.database_identity:
            doubt_commits(lane, "The database is another server, or was promoted or restored.")
    elif doubted.get("identity") != identity:
        # It changed again: what was signed since the seal began may also be lost.
        doubt_commits(lane, "The database changed again.")
    doubted = lane.holds.get(Hold.LOST_COMMITS)
    if doubted is not None and doubted.get("block") is None:
        lane.holds = {**lane.holds, Hold.LOST_COMMITS.value: doubted | {"block": view.head.number}}


def _compare_counts(lane: Lane, counts: Counts) -> None:
    """Hold a lane whose account was used elsewhere, and end that when every nonce is accounted for."""
    assert lane.next_nonce is not None
    if counts.latest is None:
        return
    used_below = max(counts.latest, counts.pending or 0)
    if used_below <= lane.next_nonce:
        end_hold(lane, Hold.EXTERNAL, "Every nonce is accounted for.")
        return
    if used_below <= (lane.accepted_below or 0):
        # Staff have ended the hold for these nonces. If it has one, that began later, for others that are gone.
        end_hold(lane, Hold.EXTERNAL, "Staff have accepted the use of its nonces.")
        return
    if counts.latest > lane.next_nonce:
        used = f"{counts.latest - lane.next_nonce} of its nonces"
        details = f"Another program used {used}, from {lane.next_nonce} on."
    else:
        details = f"Another program has a transaction with nonce {lane.next_nonce} pending."
    hold(lane, Hold.EXTERNAL, details, used_below=used_below)
    note(lane, Hold.EXTERNAL, used_below=used_below)


def _seal(lane: Lane, counts: Counts) -> None:
    """After lost commits, choose the nonces to seal, and release the lane when all of them are final."""
    doubted = lane.holds.get(Hold.LOST_COMMITS)
    if doubted is None or counts.final is None or counts.final_block is None:
        return
    assert lane.next_nonce is not None
    end = max(counts.final, lane.next_nonce) + SEALED_WINDOWS * window_of(lane)
    if lane.seal_below is None:
        # The node that was asked then may have been behind, and a block of that time is no newer than the change.
        if counts.final_block > doubted["block"] + MAX_BLOCKS_BEHIND:
            lane.seal_below = end
        return
    # Counts rise: a node that is asked later can only lower it if the one before was wrong.
    lane.seal_below = min(lane.seal_below, end)
    if min(counts.final, lane.next_nonce) < lane.seal_below:
        return
    rows = Transaction.objects.filter(IS_OPEN, lane=lane, epoch=lane.epoch, nonce__lt=lane.seal_below)
    if not rows.exists():
        end_hold(lane, Hold.LOST_COMMITS, f"All nonces below {lane.seal_below} are final.")


def _advance_search(lane: Lane, counts: Counts, is_explained: bool) -> None:
    """Move the start of the next search forward, only now and then, as each time writes the lane."""
    assert lane.next_nonce is not None
    if counts.final is None or counts.final_block is None or not is_explained or lane.next_nonce < counts.final:
        return
    if counts.final_block - (lane.search_block or 0) >= SEARCH_STEP:
        lane.search_block = counts.final_block
    # Whatever was searched for was found out.
    lane.searched_block, lane.searches, lane.search_again_at = None, 0, None


def _find_gap(lane: Lane, watched: Sequence[Watched], view: ChainView) -> None:
    """Note since which block the chain waits for a nonce that no row has, with rows above it in flight."""
    in_flight = [each.nonce for each in watched if each.row.status in IN_FLIGHT]
    count = -1 if lane.chain_nonce is None else lane.chain_nonce
    # A nonce below the first one is missing if what used it was not final: it may be gone since first contact.
    first = lane.first_nonce or 0
    lowest = first if lane.final_nonce is None else min(first, lane.final_nonce)
    if not lowest <= count < max(in_flight, default=0) or count in in_flight:
        lane.gap_block = None
        return
    # Rows may have been added since the view: those that are in flight still are.
    if Transaction.objects.filter(lane=lane, epoch=lane.epoch, nonce=lane.chain_nonce).exists():
        lane.gap_block = None
    elif lane.gap_block is None:
        lane.gap_block = view.head.number


def _note_head(lane: Lane, watched: Sequence[Watched], rose: bool, now: datetime) -> None:
    """Note since when the chain waits for the lowest nonce in flight."""
    if not any(each.nonce == lane.chain_nonce for each in watched if each.row.status in IN_FLIGHT):
        lane.head_since = None
    elif rose or lane.head_since is None:
        lane.head_since = now
