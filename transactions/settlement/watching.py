"""One look at a chain for many lanes that use the same nodes."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce, Greatest

from chain.errors import ChainFault, NodesUnreachable
from chain.networks import Network
from chain.nodes import failover
from chain.nodes.plausibility import MAX_BLOCKS_BEHIND, is_believed
from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.database.access import release_connection
from relayer_service.database.clock import database_now
from relayer_service.database.compiled import compiled
from relayer_service.database.updating import update_each
from relayer_service.observability.logs import RepeatedWarnings
from transactions.changes import attach_attempts
from transactions.models import FINAL, IN_FLIGHT, IS_OPEN, Attempt, ChainWatch, Hold, Lane, Status, Transaction
from transactions.records.crash_points import step
from transactions.records.networks import network_of
from transactions.settlement import chains, final_counts, judging, second_node, writing
from transactions.settlement.judging import Consumed, Finished, Judgment, Mined, Watched
from transactions.settlement.nonces import accounts, holds, nonce_owner
from transactions.settlement.nonces.database_identity import database_identity
from transactions.settlement.reading import ChainView, Counts, NodeReader, Question, readers

logger = logging.getLogger(__name__)
logger.addFilter(RepeatedWarnings())

# Lanes that are locked and written together: few enough that their turns do not wait long.
LANES_IN_BATCH = 10
# A lane in which one of these changed takes a turn.
TURN_COLUMNS = {"chain_nonce", "next_nonce", "holds", "seal_below"}
# Nonces of final rows that are checked until the chain reports them as final.
MAX_CHECKED = 128

# The watched rows of each lane, by its primary key.
Rows = Mapping[int, Sequence[Watched]]


@dataclass(frozen=True)
class PollResult:
    """The result of one look: the lanes that changed, by primary key.

    Those that have advanced are as expected: of these, only one with requests that wait for room needs a turn now.
    """

    head_number: int | None = None
    changed: set[int] = field(default_factory=set)
    advanced: set[int] = field(default_factory=set)


def look(lanes: Sequence[Lane]) -> PollResult:
    """Read the chain for lanes that this worker holds, settle their transactions and write what changed.

    Called in a thread, about once per block, and before a lane's first turn: only then is it known whether the chain,
    the account and the database are as they were. Raises `ChainFault` if no node answers; nothing is decided then.
    """
    lanes = [lane for lane in lanes if lane.relayer is not None]
    if not lanes:
        return PollResult()
    assert lanes[0].relayer is not None
    network, nodes = network_of(lanes[0].relayer), lanes[0].relayer.node_urls()
    watch = chains.find_watch(network.chain_id, nodes)
    # The lanes in memory may be older.
    epochs = dict(Lane.objects.filter(pk__in=[lane.pk for lane in lanes]).values_list("pk", "epoch"))
    rows = load(lanes)
    question = _question(lanes, rows, watch, network)
    release_connection()
    try:
        reader, view = _read(readers(nodes, network), question, lanes, rows, watch)
    except NodesUnreachable as fault:
        chains.note_halt(watch, network, fault.head_time)
        raise
    if chains.is_other_chain(watch, view):
        with transaction.atomic(), acting_as(ActorKind.WORKER, "chain watch"):
            changed = chains.replace(watch, view, network)
        if not chains.starts_epochs(network):
            return PollResult(view.head.number, changed)
        begun = look(lanes)
        return PollResult(begun.head_number, changed | begun.changed)
    compared = (judging.receipts_to_compare(lane, rows.get(lane.pk, ()), view, network) for lane in lanes)
    view = second_node.compare(reader, view, [each for hashes in compared for each in hashes])
    found, unexplained = PollResult(view.head.number), list[Lane]()
    for start in range(0, len(lanes), LANES_IN_BATCH):
        with transaction.atomic(), acting_as(ActorKind.WORKER, "chain watch"):
            unexplained += _settle(lanes[start : start + LANES_IN_BATCH], epochs, rows, view, network, watch, found)
        step("settled")
    chains.store(watch, view, question.highest_head, network)
    if view.is_believed:
        chains.note_halt(watch, network, view.head_time, (each.row for found in rows.values() for each in found))
    for lane in unexplained:
        try:
            if nonce_owner.identify(reader, lane, view):
                found.changed.add(lane.pk)
                found.advanced.discard(lane.pk)
        except ChainFault as fault:
            # The others are settled already: only this search goes on in the next look.
            logger.warning("The nonces of the lane %s cannot be identified: %s", lane, fault)
    return found


def _question(lanes: Sequence[Lane], rows: Rows, watch: ChainWatch, network: Network) -> Question:
    now = database_now()
    # The blocks whose hash decides about rows, or about the chain.
    blocks = [watch.anchor_number, *(each.row.block_number for found in rows.values() for each in found)]
    return Question(
        addresses=[lane.address for lane in lanes],
        numbers=sorted({number for number in blocks if number is not None}),
        highest_head=chains.highest_head(watch, network, now),
        limit=chains.plausible_head(watch, network, now),
        last_head=watch.head_number,
        needs_genesis=chains.can_be_replaced(network),
        genesis_hash=watch.genesis_hash,
    )


def load(lanes: Sequence[Lane]) -> Rows:
    """Return the rows that a view can change: open ones with a nonce, and final ones that a reorg can contradict."""
    keys = sorted(lane.pk for lane in lanes)
    found: list[Transaction] = [*_with_open_nonce(keys), *_final(keys)]
    attempts: dict[int, list[Attempt]] = defaultdict(list)
    nonces = {row.pk: row.nonce for row in found}
    for attempt in _attempts(sorted(nonces)):
        # A row that was queued again also has attempts at its former nonce.
        if attempt.nonce == nonces[attempt.transaction_id]:
            attempts[attempt.transaction_id].append(attempt)
    attach_attempts(found, (attempt for own in attempts.values() for attempt in own))
    rows: dict[int, list[Watched]] = defaultdict(list)
    for row in sorted(found, key=lambda row: row.nonce or 0):
        rows[row.lane_id].append(Watched(row, attempts[row.pk]))
    return rows


@compiled()
def _attempts(rows: list[int]) -> QuerySet[Attempt]:
    return Attempt.objects.filter(transaction__sequence__in=rows, epoch=F("lane__epoch")).order_by("number")


def _with_nonce(lanes: list[int]) -> QuerySet[Transaction]:
    return Transaction.objects.filter(lane__id__in=lanes, epoch=F("lane__epoch"), nonce__isnull=False)


@compiled()
def _with_open_nonce(lanes: list[int]) -> QuerySet[Transaction]:
    return _with_nonce(lanes).filter(IS_OPEN, status__in=[*IN_FLIGHT, Status.MINED])


@compiled()
def _final(lanes: list[int]) -> QuerySet[Transaction]:
    # Not all of a lane whose final count is unknown.
    unsure = Greatest(Coalesce("lane__final_nonce", 0), Coalesce("lane__next_nonce", 0) - MAX_CHECKED)
    final = _with_nonce(lanes).filter(status__in=FINAL, nonce__gte=unsure, mined_attempt__isnull=False)
    return final.filter(contradicted_at=None)


def _read(
    candidates: Iterable[NodeReader], question: Question, lanes: Sequence[Lane], rows: Rows, watch: ChainWatch
) -> tuple[NodeReader, ChainView]:
    """Return the view of the first node that answers both batches and whose head is believed.

    If no head is, the last one that was takes its place. A node with another chain is believed only if no other node
    has the known one.
    """
    reasons, others, claims, head_times = set(), [], list[tuple[NodeReader, ChainView]](), list[int | None]()
    for reader in candidates:
        try:
            view = reader.view(question)
            if chains.is_other_chain(watch, view):
                others.append((reader, view))
            elif is_believed(view.head.number, question.limit, [claim.head.number for _, claim in claims]):
                return reader, _complete(reader, view, question, lanes, rows)
            else:
                claims.append((reader, view))
        except NodesUnreachable as error:
            reasons.add(error.reasons)
            head_times.append(error.head_time)
    if claims:
        risen = [each for each in claims if chains.has_risen(watch, each[0].network, each[1])]
        reader, view = risen[0] if risen else (claims[0][0], claims[0][1].at_earlier_head(watch.head_number or 0))
        return reader, _complete(reader, view, question, lanes, rows)
    if others:
        return others[0]
    raise NodesUnreachable("; ".join(sorted(reasons)), failover.newest_head(head_times))


def _complete(reader: NodeReader, view: ChainView, question: Question, lanes: Sequence[Lane], rows: Rows) -> ChainView:
    """Return a view with final counts, and with the receipts of rows."""
    hashes = [
        each for lane in lanes for each in judging.receipts_to_read(lane, rows.get(lane.pk, ()), view, reader.network)
    ]
    counted = final_counts.complete(reader, view)
    highest = max(view.head.number + MAX_BLOCKS_BEHIND, question.limit or 0)
    return replace(counted, receipts=reader.receipts(hashes, highest))


def _settle(
    lanes: Sequence[Lane],
    epochs: Mapping[int, int],
    rows: Rows,
    view: ChainView,
    network: Network,
    watch: ChainWatch,
    found: PollResult,
) -> list[Lane]:
    """Write what the view decides about lanes whose lease is still the worker's, in the epochs it was read for.

    Those that changed are added to the result. Return those with nonces in final blocks that no row explains.
    """
    leases = {lane.pk: lane.lease for lane in lanes}
    held = [lane for lane in _locked_lanes(sorted(leases)) if lane.lease and lane.lease == leases[lane.pk]]
    current = [lane for lane in held if lane.epoch == epochs.get(lane.pk) and _is_on_chain(lane, view, network, watch)]
    judgments = {lane.pk: judging.judge(lane, rows.get(lane.pk, ()), view, network) for lane in current}
    found.changed.update(writing.write([judgment for each in judgments.values() for judgment in each], current))
    identity, now, unexplained = database_identity(), database_now(), []
    saved, columns = list[Lane](), set[str]()
    for lane in current:
        is_explained = not any(isinstance(judgment, Consumed) for judgment in judgments[lane.pk])
        watched, count = rows.get(lane.pk, ()), lane.chain_nonce
        names = accounts.review(lane, watched, view, identity, now, is_explained=is_explained)
        if names & TURN_COLUMNS or lane.gap_block is not None:
            found.changed.add(lane.pk)
        if _has_advanced(lane, count, judgments[lane.pk]):
            found.advanced.add(lane.pk)
        if lane.watch_id != watch.pk:
            lane.watch = watch
            names.add("watch")
        if names:
            saved.append(lane)
            columns |= names
        final = view.counts.get(lane.address, Counts()).final
        if not is_explained or (final is not None and lane.next_nonce is not None and lane.next_nonce < final):
            unexplained.append(lane)
    update_each(saved, columns)
    return unexplained


@compiled()
def _locked_lanes(pks: list[int]) -> QuerySet[Lane]:
    lanes = Lane.objects.filter(pk__in=pks).select_for_update(no_key=True, of=("self",)).order_by("pk")
    return lanes.select_related("relayer__notification", "watch")


def _has_advanced(lane: Lane, count: int | None, judgments: Sequence[Judgment]) -> bool:
    """Return whether a view has brought nothing but progress since the account had this transaction count."""
    is_as_expected = (
        not lane.holds and lane.gap_block is None and all(isinstance(each, Mined | Finished) for each in judgments)
    )
    return is_as_expected and count is not None and (lane.chain_nonce or 0) >= count


def _is_on_chain(lane: Lane, view: ChainView, network: Network, watch: ChainWatch) -> bool:
    """Return whether the nodes have the chain of this lane; the hold of one whose chain is back ends."""
    replaced = lane.holds.get(Hold.CHAIN)
    if replaced is not None:
        is_back = bool(view.genesis_hash) and replaced.get("genesis") == view.genesis_hash
        return is_back and holds.end_hold(lane, Hold.CHAIN, "The nodes have its chain again.")
    # Other nodes than before, as the relayer was changed.
    if lane.watch is not None and chains.is_other_chain(lane.watch, view):
        chains.leave(lane, lane.watch, network, view, watch)
        return False
    return True
