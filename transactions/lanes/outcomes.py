"""The outcomes of broadcasts, and what they mean for the statuses of transactions."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count, Min, Q, QuerySet, Sum

from chain.broadcast.sending import Outcome
from relayer_service.database.compiled import compiled
from relayer_service.database.updating import update_each
from transactions import metrics
from transactions.changes import Changes, attach_attempts, lock_by_key
from transactions.lanes.broadcasting import Sent
from transactions.models import IN_FLIGHT, NOOPS, Attempt, Lane, Status, Transaction, amount_text
from transactions.records.crash_points import step
from transactions.records.states import Cause

OUTCOME_COLUMNS = (
    "outcome", "error", "last_broadcast_at", "broadcast_block", "minimum_price_text", "broadcasts",
    "first_broadcast_at", "accepted_at", "rejections", "rejected_since",
)  # fmt: skip
# A node has the transaction.
RECEIVED = {Outcome.ACCEPTED, Outcome.KNOWN}
# Why a transaction that was broadcast is not submitted.
REASONS: dict[Outcome, str] = {
    Outcome.ACCEPTED: "",
    Outcome.KNOWN: "",
    Outcome.NONCE_TOO_LOW: "Its nonce is used: the receipts of all its attempts decide by which transaction.",
    Outcome.NONCE_TOO_HIGH: "A node does not accept its nonce yet: the nonces before it are broadcast again.",
    Outcome.REPLACEMENT_UNDERPRICED: "A node has another transaction with its nonce, at a higher price.",
    Outcome.UNDERPRICED: "Its price is below what nodes accept now: it is broadcast again until they do.",
    Outcome.INSUFFICIENT_FUNDS: "The balance does not cover it: it is broadcast again until it does.",
    Outcome.POOL_LIMIT: "The transaction pools of the nodes are full: it is broadcast again.",
    Outcome.FEE_CAP: "Its fee is above the limit that is configured on the nodes: it is broadcast again for a while.",
    Outcome.REFUSED: "All nodes refuse it: its nonce is closed with a no-op.",
    Outcome.UNKNOWN: "No node has confirmed that it received the transaction: it is broadcast again.",
}
# When a payload that all nodes reject, without words for a final refusal, no longer holds up the nonces behind it.
MIN_REJECTIONS, REJECTED_FOR = 10, timedelta(minutes=10)
REJECTED = "No node has accepted it in {} tries, which all nodes answered: its nonce is closed with a no-op."


def write_broadcasts(lane: Lane, sent: Sequence[Sent], head: int | None = None) -> None:
    """Write the outcomes of broadcasts, and the status of rows that no node has accepted before.

    The lease is not required: the bytes were committed, and whoever broadcast them knows the outcome.
    """
    with transaction.atomic():
        # Before their attempts, as a request to broadcast one again does.
        own = lock_by_key({each.attempt.transaction_id for each in sent}, _lane(lane.pk))
        rows = [row for row in own if row.status in IN_FLIGHT]
        changes = Changes(own)
        attach_attempts(rows, _write_outcomes(sent, head, changes.now))
        _write_statuses(rows, sent, changes)
    step("outcomes_written")
    for each in sent:
        metrics.count(metrics.BROADCASTS, lane.chain_id, each.broadcast.outcome)


def _is_refused_replacement(sent: Sent) -> bool:
    """Return whether all nodes refuse a payload that another one was replaced by, of which nodes have attempts."""
    attempt = sent.attempt
    is_new = attempt.purpose == Attempt.Purpose.REPLACE and attempt.accepted_at is None
    return is_new and sent.broadcast.outcome == Outcome.REFUSED


def _hopeless_tries(sent: Sent, now: datetime) -> int:
    """Return how often all nodes have rejected a payload, at any price, if that is often and long enough; else 0."""
    if not sent.broadcast.is_rejected_by_all:
        return 0
    attempt, same = sent.attempt, Q(payload_version=sent.attempt.payload_version)
    own = Attempt.objects.filter(transaction=attempt.transaction_id, epoch=attempt.epoch, nonce=attempt.nonce)
    tries, since = Sum("rejections", filter=same), Min("rejected_since", filter=same)
    found = own.aggregate(accepted=Count("accepted_at"), tries=tries, since=since)
    is_hopeless = found["tries"] >= MIN_REJECTIONS and now - found["since"] >= REJECTED_FOR
    return found["tries"] if is_hopeless and not found["accepted"] else 0


@compiled()
def _lane(pk: int) -> QuerySet[Lane]:
    """Return the lane as it is now: the broadcast may have taken long."""
    return Lane.objects.filter(pk=pk).select_related("relayer__notification", "watch")


@compiled()
def _attempts(pks: list[int]) -> QuerySet[Attempt]:
    return Attempt.objects.filter(pk__in=pks)


def _write_outcomes(sent: Sequence[Sent], head: int | None, now: datetime) -> Iterable[Attempt]:
    # Read now that their rows are locked: another worker may have broadcast them, too.
    current = {each.pk: each for each in _attempts([each.attempt.pk for each in sent])}
    written = [(current[each.attempt.pk], each.broadcast) for each in sent if each.attempt.pk in current]
    for attempt, result in written:
        attempt.outcome, attempt.error, attempt.last_broadcast_at = result.outcome, result.error, now
        attempt.broadcast_block, attempt.minimum_price_text = head, amount_text(result.minimum_price)
        attempt.broadcasts, attempt.first_broadcast_at = attempt.broadcasts + 1, attempt.first_broadcast_at or now
        if result.outcome in RECEIVED:
            attempt.accepted_at = attempt.accepted_at or now
        if result.is_rejected_by_all:
            attempt.rejections, attempt.rejected_since = attempt.rejections + 1, attempt.rejected_since or now
    update_each([attempt for attempt, _ in written], OUTCOME_COLUMNS)
    return current.values()


def _write_statuses(rows: Iterable[Transaction], sent: Sequence[Sent], changes: Changes) -> None:
    by_row = {each.attempt.transaction_id: each for each in sent}
    for row in rows:
        each = by_row[row.pk]
        if row.last_attempt_id != each.attempt.pk:
            continue
        if row.status == Status.SUBMITTED and not _is_refused_replacement(each):
            # A node has one of its attempts already.
            continue
        if each.broadcast.outcome in RECEIVED:
            changes.move(row, Cause.RECEIVED, attempt=row.last_attempt)
            continue
        # Whatever nodes answer to a no-op, it is not replaced by another one.
        can_close = not row.requested_action and each.attempt.purpose not in NOOPS
        tries = _hopeless_tries(each, changes.now) if can_close else 0
        reason = REJECTED.format(tries) if tries else REASONS[each.broadcast.outcome]
        if each.broadcast.error:
            reason = f"{reason} The node answered: {each.broadcast.error}"
        if can_close and (tries or each.broadcast.outcome == Outcome.REFUSED):
            changes.update(row, requested_action=Transaction.Action.CLOSE, action_reason=reason, status_reason=reason)
        elif row.status_reason != reason:
            changes.update(row, status_reason=reason)
    changes.save()
