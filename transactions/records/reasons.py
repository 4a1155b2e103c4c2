"""`status_reason`: one sentence that answers why a transaction is not further, in REST, webhooks and the admin."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from relayer_service.database.clock import shared_time, timestamp
from relayers.models import Relayer
from transactions.models import FINAL, IS_PENDING, NOOPS, Attempt, Hold, Lane, Status, Transaction, Waiting
from transactions.records.networks import network_of
from transactions.records.queues import MAX_POSITION
from transactions.records.routing import NOOP_BLOCKS, Route, choose, head_block
from transactions.records.signed_payloads import is_superseded

REPLACING = NOOPS - {Attempt.Purpose.GAP}
# Signed only for a nonce that has another payload already.
RIVALS = {*REPLACING, Attempt.Purpose.REPLACE}
CANCELED_TOO_LATE = "The cancellation came too late."
REPLACED_TOO_LATE = "The replacement came too late: the transaction before it was mined."
AT_FINALITY = "It becomes final when its block is final."
SIGNING = {
    Transaction.Action.REPLACE: "Its replacement is being signed",
    Transaction.Action.SPEED_UP: "It is being signed at a higher price",
}


# The columns of a relayer that reasons need.
RELAYER_COLUMNS = (
    "identifier", "network", "chain_id", "paused", "health__system_disabled", "health__disabled_reason_details",
)  # fmt: skip
# After which a row or a lane that is due is late. Sweeps take seconds.
PATIENCE = timedelta(minutes=1)


class Position(NamedTuple):
    """The place of a pending transaction in the queue of its relayer, from 1; both are counted up to a maximum."""

    number: int
    total: int


def positions(rows: Iterable[Transaction]) -> dict[int, Position]:
    """Return the positions of the pending ones of these rows, by primary key, with one query for each lane."""
    pending = [row for row in rows if row.status == Status.PENDING]
    found: dict[int, Position] = {}
    for lane in {row.lane_id for row in pending}:
        queue = Transaction.objects.filter(IS_PENDING, lane=lane).order_by("sequence")
        keys = list(queue.values_list("sequence", flat=True)[: MAX_POSITION + 1])
        found |= {pk: Position(number, len(keys)) for number, pk in enumerate(keys, start=1)}
        if len(keys) > MAX_POSITION:
            found |= {row.pk: found[keys[-1]] for row in pending if row.lane_id == lane and row.pk > keys[-1]}
    return found


def status_reason(row: Transaction, lane: Lane, position: Position | None = None) -> str:
    """Return the reason of the row, or of its lane, or its progress. No query if the relayer is loaded."""
    if row.requested_action and row.status != Status.MINED:
        return _requested(row)
    if row.status == Status.PENDING:
        # What stops the whole lane comes first: the row's own reason is from before.
        stop = _hold(lane) or stop_reason(row.relayer) or _shortage(row, lane) or row.status_reason
        return stop or halt_reason(lane) or _outage(lane) or _queued(row, position, lane)
    if row.status in FINAL:
        return row.status_reason
    if row.status == Status.MINED:
        return row.status_reason or _confirmations(row, lane)
    if halt := halt_reason(lane) or row.status_reason:
        # Its price is not why it is not mined.
        return halt
    return _outage(lane, Waiting.NODES) or _in_flight(row, lane)


def _requested(row: Transaction) -> str:
    if not row.is_ending:
        # Why that is not possible yet.
        what = SIGNING[Transaction.Action(row.requested_action)]
        return f"{what}. {row.status_reason}".rstrip()
    what = "It will be closed without being sent" if row.nonce is None else "It is being replaced by a no-op"
    last = row.last_attempt if row.is_private else None
    if last is not None and last.purpose in REPLACING and _is_with_private_nodes(row, row.lane):
        what = f"{what}, which private nodes have until block {(last.private_since or 0) + NOOP_BLOCKS}"
    return f"{what}: {row.action_reason}" if row.action_reason else f"{what}."


def _hold(lane: Lane) -> str:
    """Return the first of the lane's holds, in the order of `Hold`, and how many others there are."""
    found = [(hold, lane.holds[hold]) for hold in Hold if hold in lane.holds]
    if not found:
        return ""
    hold, entry = found[0]
    if lane.waiting == Waiting.FUNDS and [*lane.holds] == [Hold.LOST_COMMITS]:
        return _outage(lane, Waiting.FUNDS)
    details = f": {entry['details'].rstrip('.')}" if entry.get("details") else ""
    others = f" (and {_plural(len(found) - 1, 'other')})" if len(found) > 1 else ""
    return f"The relayer is held since {entry['since']}. {hold.label}{details}{others}."


def stop_reason(relayer: Relayer | None) -> str:
    """Return why a relayer gets no new nonces, or ""."""
    if relayer is not None and relayer.paused:
        return "The relayer is paused."
    health = relayer.health if relayer else None
    return f"The relayer is disabled. {health.disabled_reason_details}" if health and health.system_disabled else ""


def halt_reason(lane: Lane) -> str:
    """Return since when the chain of a lane has had no new block, if that is too long; "" while no worker reads it."""
    late = datetime.fromtimestamp(shared_time(), UTC) - PATIENCE
    if lane.halted_since is None or lane.due_at < late:
        return ""
    return f"No new block since {timestamp(lane.halted_since)}: nothing is mined until the chain goes on."


def _shortage(row: Transaction, lane: Lane) -> str:
    """Return what is missing for all that wait for funds, if the row is one of them: its own reason may be older."""
    is_unfunded = lane.waiting == Waiting.FUNDS and row.reason_code == Transaction.Reason.FUNDS
    return f"{Waiting.FUNDS.label}: {lane.waiting_details}" if is_unfunded and lane.waiting_details else ""


def _outage(lane: Lane, *which: Waiting) -> str:
    """Return what stops every transaction of the lane."""
    if lane.waiting not in (which or (Waiting.NODES, Waiting.SIGNER)):
        return ""
    return f"{Waiting(lane.waiting).label}{_since(lane)}."


def _queued(row: Transaction, position: Position | None, lane: Lane) -> str:
    counts = [f"{MAX_POSITION:,}+" if count > MAX_POSITION else str(count) for count in position or ()]
    place = f"Position {' of '.join(counts)}" if counts else "It is"
    return f"{place} in the queue of this relayer{_delay(row, lane)}."


def _delay(row: Transaction, lane: Lane) -> str:
    """Return why a row that is due for a while has no nonce, as far as its lane shows."""
    if lane.waiting == Waiting.FUNDS:
        # One that costs less may be sent at once.
        return f"; another one waits for funds{_since(lane)}"
    late = datetime.fromtimestamp(shared_time(), UTC) - PATIENCE
    if row.due_at >= late:
        return ""
    if lane.due_at < late:
        return f"; no worker has taken it since {timestamp(max(lane.due_at, row.due_at))}"
    flying = (lane.next_nonce or 0) - (lane.chain_nonce or 0)
    if row.relayer is not None and flying >= (lane.window or network_of(row.relayer).window):
        return f"; {_plural(flying, 'nonce')} in flight, the maximum"
    return f"; due since {timestamp(row.due_at)}"


def _since(lane: Lane) -> str:
    since = f" since {timestamp(lane.waiting_since)}" if lane.waiting_since else ""
    return f"{since}: {lane.waiting_details.rstrip('.')}" if lane.waiting_details else since


def _in_flight(row: Transaction, lane: Lane) -> str:
    if row.status == Status.SENT:
        error = row.last_attempt.error.rstrip(".") if row.last_attempt else ""
        answer = f"; the last answer was: {error}" if error else ""
        nodes = "private node" if _is_with_private_nodes(row, lane) else "node"
        return f"No {nodes} has accepted it yet{answer}."
    place = "With private nodes" if _is_with_private_nodes(row, lane) else "In the mempool"
    since = f"{place} since {timestamp(row.submitted_at)}" if row.submitted_at else place
    before = row.nonce - lane.chain_nonce if row.nonce is not None and lane.chain_nonce is not None else 0
    return f"{since}, behind {_plural(before, 'earlier nonce')} of this relayer." if before > 0 else f"{since}."


def _is_with_private_nodes(row: Transaction, lane: Lane) -> bool:
    """Return whether no public node has the newest attempt. For other rows, nothing is read."""
    attempt = row.last_attempt if row.is_private else None
    if attempt is None:
        return False
    fallback = row.relayer.private_fallback_blocks if row.relayer else None
    return choose(attempt, fallback, head_block(lane)) is Route.PRIVATE


def _confirmations(row: Transaction, lane: Lane) -> str:
    head = lane.watch.head_number if lane.watch else lane.chain_block
    count = max(1, head - row.block_number + 1) if row.block_number is not None and head is not None else 1
    if row.relayer is None:
        return f"It has {_plural(count, 'confirmation')}{_replaced(row)}."
    needed = network_of(row.relayer).confirmations
    # A replacement may be of a nonce that has no other payload: that shows once it has the confirmations.
    if _has_rivals(row) or Hold.LOST_COMMITS in lane.holds or (row.payload_version > 1 and count > needed):
        return f"{_plural(count, 'confirmation')}{_replaced(row)}. {AT_FINALITY}"
    return f"{min(count, needed)} of {needed} confirmations{_replaced(row)}."


def _has_rivals(row: Transaction) -> bool:
    """Return whether its attempts are known to have different payloads. Read as sparingly as in `_replaced`."""
    if (not row.requested_action and row.payload_version == 1) or row.mined_attempt is None:
        return False
    mined, last = row.mined_attempt, row.last_attempt or row.mined_attempt
    return bool({mined.purpose, last.purpose} & RIVALS) or mined.payload_version != last.payload_version


def _replaced(row: Transaction) -> str:
    """Return that a no-op was mined instead, and why, or which request came too late.

    Without a requested action and a replacement, the attempt is not read.
    """
    if (not row.requested_action and row.payload_version == 1) or row.mined_attempt is None:
        return ""
    if row.mined_attempt.purpose not in REPLACING:
        late = too_late(row, row.mined_attempt).rstrip(".")
        return f". {late}" if late else ""
    return f" of a no-op that replaced it: {row.action_reason.rstrip('.')}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def too_late(row: Transaction, attempt: Attempt | None) -> str:
    """Return which request of its client came after the attempt that is mined, or ""."""
    if attempt is None or attempt.purpose in NOOPS:
        return ""
    replaced = REPLACED_TOO_LATE if is_superseded(row, attempt) else ""
    canceled = CANCELED_TOO_LATE if row.requested_action == Transaction.Action.CANCEL else ""
    return f"{canceled} {replaced}".strip()
