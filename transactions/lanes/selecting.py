"""Which rows of a lane a turn plans, reviews, closes or lets wait."""

from __future__ import annotations

from transactions.lanes.drafting import MAX_WAITING, is_expiring
from transactions.lanes.prices.bumping import is_review_due
from transactions.lanes.prices.planning import Closing, Wait
from transactions.lanes.work import LaneSnapshot, load_attempts, load_budget
from transactions.models import IS_PENDING, Transaction
from transactions.records import routing
from transactions.records.states import Cause
from transactions.settlement.nonces import adoption, holds

# Raising the price of one nonce moves those behind it too: only the lowest are reviewed.
REVIEWED = 3
MIN_PLANNED = 4
# How often a row is considered that staff have to decide about.
STAFF_SECONDS = 60
EXPIRED = "It was not executed before its `valid_until`."
# Why a pending row ends, by the action that was requested for it.
CLOSINGS: dict[str, Cause] = {
    Transaction.Action.CANCEL: Cause.CANCELED,
    Transaction.Action.EXPIRE: Cause.EXPIRED,
    Transaction.Action.CLOSE: Cause.REFUSED,
}
WITHOUT_PRIVATE_NODES = "It is private, and its network has no private nodes: add some to the relayer or the network."


def due_for_review(work: LaneSnapshot) -> list[Transaction]:
    """Return the rows in flight whose price or action is considered now."""
    candidates = work.in_flight[:REVIEWED] + [row for row in work.in_flight[REVIEWED:] if row.requested_action]
    return [row for row in candidates if is_review_due(row, work.network, work.now)]


def select(work: LaneSnapshot, reviewed: list[Transaction]) -> tuple[list[int], list[Transaction], list[Wait]]:
    """Return nonces to close with no-ops, as no row has them, rows that may get a nonce, and those that wait.

    What drafting needs of these rows and of the reviewed ones is read, too.
    """
    unused = holds.noops_due(work.lane)
    planned, waits = plannable(work)
    if reviewed or planned:
        load_attempts(work, reviewed)
        load_budget(work, [*reviewed, *planned])
    return unused, planned, waits


def plannable(work: LaneSnapshot) -> tuple[list[Transaction], list[Wait]]:
    """Return the due rows that may get a nonce, and those that wait until staff have decided about them.

    Not many more rows than there may be room for, as each is simulated. The watch's count may be old, and rows that
    wait are overtaken: with one row per turn, a long queue of these would keep the lane busy.
    """
    if not work.assigns_nonces:
        return [], []
    rows = [row for row in work.due if row.valid_until > work.now and not row.requested_action]
    doubts = adoption.unclaimed_matches(rows) if work.has_unclaimed else {}
    if not work.has_private_nodes:
        # A nonce for it would block those of others.
        private = [row.pk for row in rows if routing.is_private(row, work.relayer.policies)]
        doubts = {**dict.fromkeys(private, WITHOUT_PRIVATE_NODES), **doubts}
    waits = [Wait(row, doubts[row.pk], STAFF_SECONDS) for row in rows if row.pk in doubts]
    return [row for row in rows if row.pk not in doubts][: max(work.room, MIN_PLANNED)], waits


def waiting_costs(work: LaneSnapshot, planned: list[Transaction]) -> list[str | None]:
    """Return the costs of the rows that wait for funds besides those that the turn plans, as far as they are known.

    They are not due in every turn. If there are too many, one more than is counted.
    """
    if not work.assigns_nonces:
        return []
    rows = Transaction.objects.filter(IS_PENDING, lane=work.lane, reason_code=Transaction.Reason.FUNDS)
    others = rows.exclude(pk__in=[row.pk for row in planned]).order_by("sequence")
    return list(others.values_list("waiting_cost_text", flat=True)[: MAX_WAITING + 1])


def closings(work: LaneSnapshot) -> list[Closing]:
    """Return the pending rows that end without a nonce: expired ones, and those whose action needs no no-op."""
    found: list[Closing] = []
    for row in work.due:
        if row.is_ending:
            found.append(Closing(row, CLOSINGS[row.requested_action], row.action_reason))
        elif row.valid_until <= work.now:
            found.append(Closing(row, Cause.EXPIRED, EXPIRED))
    return found


def expiring(work: LaneSnapshot) -> list[tuple[Transaction, Transaction.Action, str]]:
    """Return the requests in flight that have expired: a no-op takes their nonce, unless they are mined first.

    That overtakes a replacement or a higher price that is not signed yet.
    """
    return [(row, Transaction.Action.EXPIRE, EXPIRED) for row in work.in_flight if is_expiring(row, work.now)]
