"""Finding out who used nonces that no attempt explains, lowest first, a few in each look."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from chain.networks import NetworkKind
from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.database.access import release_connection
from relayer_service.database.clock import database_now
from transactions.changes import Changes, lock_rows
from transactions.models import IN_FLIGHT, IS_IN_FLIGHT, Lane, Transaction
from transactions.records.crash_points import step
from transactions.settlement import second_node
from transactions.settlement.nonces import adoption
from transactions.settlement.reading import ChainView, Counts, NodeReader
from transactions.settlement.searching import search

# In one look; the next one goes on.
MAX_NONCES = 8
# Time after which a search that found nothing starts over: doubled each time, up to the limit.
SEARCH_AGAIN, MAX_SEARCH_AGAIN, MAX_DOUBLED = timedelta(minutes=1), timedelta(hours=1), 10
USED = "Its nonce {} was used in a final block, by none of its attempts; "
NOT_FOUND = "the transaction that used it was not found yet."


def identify(reader: NodeReader, lane: Lane, view: ChainView) -> bool:
    """Assign nonces that were used in final blocks to rows; return whether anything changed."""
    counts = view.counts.get(lane.address, Counts())
    changed = False
    for _ in range(MAX_NONCES):
        nonce = lowest_unexplained(lane, counts)
        if nonce is None or view.final_number is None or not _identify(reader, lane, nonce, view.final_number):
            break
        changed = True
        lane.refresh_from_db()
    return changed


def lowest_unexplained(lane: Lane, counts: Counts) -> int | None:
    """Return the lowest nonce that was used in a final block and that no mined or final row explains."""
    if counts.final is None or lane.next_nonce is None:
        return None
    rows = Transaction.objects.filter(IS_IN_FLIGHT, lane=lane, epoch=lane.epoch, nonce__lt=counts.final)
    lowest = rows.order_by("nonce").values_list("nonce", flat=True).first()
    # A nonce without a row is searched for once all nonces of rows are settled.
    return lowest if lowest is not None else (lane.next_nonce if lane.next_nonce < counts.final else None)


def _identify(reader: NodeReader, lane: Lane, nonce: int, final_block: int) -> bool:
    """Search for the user of one nonce, on from where the last search ended; return whether it was assigned.

    The search ends at the newest final block, not at the block of the count: the node may have read the count later.
    """
    start = _first_block(lane, database_now())
    if start >= final_block:
        return False
    release_connection()
    result = search(reader, lane.address, nonce, start, final_block)
    receipts = reader.receipts([result.found.hash]) if result.found else {}
    agreed = second_node.has_transaction(reader, lane.address, result.found) if receipts and result.found else None
    step("identified")
    with transaction.atomic(), acting_as(ActorKind.WORKER, "chain watch"):
        held = Lane.objects.held([lane]).select_for_update(no_key=True, of=("self",))
        locked: Lane | None = held.select_related("relayer__notification").first()
        if locked is None or locked.epoch != lane.epoch:
            return False
        if result.found is None:
            _go_on_later(locked, result.searched_block, final_block)
            _explain(locked, nonce)
            return False
        receipt = receipts.get(result.found.hash)
        if receipt is None or receipt.block != result.found.block:
            return False
        try:
            # A savepoint: nothing is written if a row has changed since it was read.
            with transaction.atomic():
                is_rollup = reader.network.kind != NetworkKind.NONE
                return adoption.settle(locked, result.found, receipt, agreed, is_rollup=is_rollup)
        except adoption.ChangedMeanwhile:
            return False
        except adoption.NotBelieved as doubt:
            _go_on_later(locked, final_block if result.found.is_proven else result.searched_block, final_block)
            _explain(locked, nonce, str(doubt))
            return False


def _first_block(lane: Lane, now: datetime) -> int:
    """Return the block after which to search."""
    floor = lane.search_block or 0
    if lane.searched_block is None or (lane.search_again_at is not None and lane.search_again_at <= now):
        return floor
    return max(floor, lane.searched_block)


def _go_on_later(lane: Lane, searched_block: int, final_block: int) -> None:
    """Store where the search goes on. At its end it reads new blocks only, and starts over now and then.

    A node may have left the transaction out of a block, or its block may have been final for another node alone.
    """
    now = database_now()
    is_again = lane.search_again_at is not None and lane.search_again_at <= now
    lane.searched_block = searched_block
    if searched_block < final_block:
        lane.search_again_at = None if is_again else lane.search_again_at
    elif lane.search_again_at is None or is_again:
        pause = min(SEARCH_AGAIN * 2 ** min(lane.searches, MAX_DOUBLED), MAX_SEARCH_AGAIN)
        lane.searches, lane.search_again_at = min(lane.searches + 1, MAX_DOUBLED), now + pause
    lane.save(update_fields=["searched_block", "searches", "search_again_at"])


def _explain(lane: Lane, nonce: int, why: str = NOT_FOUND) -> None:
    """Write into the row why it has not progressed; what was found is kept while the search goes on."""
    rows = Transaction.objects.filter(lane=lane, epoch=lane.epoch, nonce=nonce, status__in=IN_FLIGHT)
    code, reason = Transaction.Reason.NONCE_USED, f"{USED.format(nonce)}{why}"
    known = Q(reason_code=code) if why == NOT_FOUND else Q(status_reason=reason)
    for row in lock_rows(rows.exclude(known)).values():
        changes = Changes()
        changes.update(row, status_reason=reason, reason_code=code)
        changes.save()
