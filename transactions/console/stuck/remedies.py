"""What staff can do about a nonce that is stuck: one recommendation for each cell. Pure functions."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import models

from chain.broadcast.sending import Outcome
from chain.units import gwei
from transactions.console.stuck.cells import Cell, State
from transactions.lanes.prices.bumping import FUTILE_REBROADCASTS
from transactions.models import NOOP_PURPOSES, Attempt, Hold, Lane, Transaction, Waiting

# How long a transaction of another program matters.
ELSEWHERE_SHOWN = timedelta(days=1)
# The part of the expected wait that a new price gets.
NEW_PRICE_PART = 5
UNDERPRICED = {Outcome.UNDERPRICED, Outcome.REPLACEMENT_UNDERPRICED}
# No node has it, or none is known to have it.
UNDELIVERED = {Outcome.UNKNOWN, Outcome.POOL_LIMIT, Outcome.NONCE_TOO_HIGH, ""}
REFUSED = {Outcome.REFUSED, Outcome.FEE_CAP}
NOT_MINED = "Nothing is mined until the chain has a new block."
CLIENT_PRICE = " Its client set the price, which the service does not raise."


class Remedy(models.TextChoices):
    """The values are names of `actions`, and the paths of the pages that confirm them."""

    SPEED_UP = "speed_up", "Speed up"
    CANCEL = "cancel", "Cancel"
    RESEND = "resend", "Resend"
    FILL_GAP = "fill_hole", "Fill hole"
    HOLD = "hold", "Hold"
    RELEASE = "release", "Release"
    TOP_UP = "top_up", "Top up"


# Remedies of the whole lane: once is enough, however many cells recommend them.
OF_LANE = {Remedy.HOLD, Remedy.RELEASE, Remedy.TOP_UP}


class Advice(NamedTuple):
    """A remedy and why it is recommended, or why there is none; both may be empty."""

    remedy: Remedy | None = None
    why: str = ""


NOTHING = Advice()


def recommend(
    cell: Cell,
    lane: Lane,
    patience: timedelta,
    now: datetime,
    refusal: Callable[[Cell, Remedy], str] = lambda cell, remedy: "",
) -> Advice:
    """Return the best remedy for a cell that is not refused.

    `patience` is how long a transaction may wait on its network. `refusal` returns why a remedy is not possible now,
    or "" if it is; it is called for few cells, as it may read the database.
    """
    refused: list[Advice] = []
    for advice in _candidates(cell, lane, patience, now):
        if advice.remedy is None:
            return advice
        text = refusal(cell, advice.remedy)
        if not text:
            return advice
        refused.append(Advice(None, f"{advice.why} {advice.remedy.label} is not possible: {text}".lstrip()))
    return refused[0] if refused else NOTHING


def _candidates(cell: Cell, lane: Lane, patience: timedelta, now: datetime) -> Iterator[Advice]:
    """Yield what would help, the best first; without a remedy, why nothing has to be done."""
    if cell.state == State.WAITING and cell.row:
        yield _for_waiting(cell.row, lane)
    elif cell.state == State.GAP and not cell.is_next:
        yield Advice(None, f"Nonce {lane.chain_nonce} comes first.")
    elif cell.state == State.GAP:
        yield Advice(Remedy.FILL_GAP, "A no-op uses the nonce, so that those above it can be mined.")
    elif cell.state == State.ELSEWHERE:
        yield _for_elsewhere(cell, lane, now)
    elif cell.state == State.IN_FLIGHT and cell.row:
        yield from _for_in_flight(cell, cell.row, lane, patience, now)


def _for_waiting(row: Transaction, lane: Lane) -> Advice:
    if row.requested_action:
        return NOTHING
    if lane.holds:
        return for_hold(lane)
    if lane.relayer and lane.relayer.paused:
        return Advice(None, "Resume the relayer to send it.")
    if lane.waiting == Waiting.FUNDS and row.reason_code == Transaction.Reason.FUNDS:
        return Advice(Remedy.TOP_UP, "The balance does not cover it.")
    if lane.waiting == Waiting.SIGNER:
        return Advice(None, "Check the signer of the relayer.")
    if lane.halted_since:
        return Advice(None, NOT_MINED)
    if lane.waiting == Waiting.NODES or (lane.relayer and lane.relayer.health.system_disabled):
        return Advice(None, "Check the nodes of the relayer.")
    return NOTHING


def for_hold(lane: Lane) -> Advice:
    if {Hold.LOST_COMMITS, Hold.EXTERNAL} & {*lane.holds}:
        # Unsafe before that: a waiting request may be one that was sent.
        return Advice(None, "The service ends the hold once every nonce of the account is accounted for.")
    return Advice(Remedy.RELEASE, "It is sent once the lane is released.")


def _for_elsewhere(cell: Cell, lane: Lane, now: datetime) -> Advice:
    is_accepted = lane.accepted_below is not None and (cell.nonce or 0) < lane.accepted_below
    is_old = cell.since is not None and now - cell.since >= ELSEWHERE_SHOWN
    if lane.holds or is_accepted or is_old:
        return NOTHING
    return Advice(Remedy.HOLD, "Another program sends from this account: hold the lane until it has stopped.")


def _for_in_flight(cell: Cell, row: Transaction, lane: Lane, patience: timedelta, now: datetime) -> Iterator[Advice]:
    attempt = cell.attempt
    if Hold.CHAIN in lane.holds:
        yield Advice(Remedy.RELEASE, "Nothing is broadcast until the lane is released.")
    elif lane.chain_nonce is not None and (cell.nonce or 0) < lane.chain_nonce:
        yield Advice(None, "Its nonce is used: the service finds out by which transaction.")
    elif lane.halted_since:
        yield Advice(None, NOT_MINED)
    elif lane.waiting == Waiting.NODES:
        yield Advice(None, "Check the nodes of the relayer.")
    elif attempt is not None and attempt.outcome == Outcome.INSUFFICIENT_FUNDS:
        yield Advice(Remedy.TOP_UP, "The balance does not cover it.")
    elif not cell.is_next:
        yield Advice(None, "" if lane.chain_nonce is None else f"It waits for nonce {lane.chain_nonce}.")
    elif cell.since is None or now - cell.since < patience:
        yield Advice(None, "It is not late.")
    elif attempt is None or attempt.outcome == Outcome.NONCE_TOO_LOW:
        yield NOTHING
    elif attempt.number > 1 and now - (attempt.first_broadcast_at or attempt.signed_at) < patience / NEW_PRICE_PART:
        yield Advice(None, "Its newest attempt is not late.")
    else:
        yield from _for_late(cell, row, attempt)


def _for_late(cell: Cell, row: Transaction, attempt: Attempt) -> Iterator[Advice]:
    """Yield what helps the next nonce of the chain, which has waited for too long."""
    problem = _price_problem(cell, attempt)
    if row.requested_action and NOOP_PURPOSES.get(row.requested_action) != attempt.purpose:
        yield Advice(None, "The lane signs what was requested in its next turn.")
    elif row.requested_action:
        # The lane prices the no-op itself.
        yield Advice(Remedy.RESEND, "Nodes may have lost the no-op.")
    elif attempt.outcome in REFUSED:
        yield Advice(Remedy.CANCEL, "Nodes refuse it.")
    elif problem:
        why = problem if row.pricing == Transaction.Pricing.SPEED else problem + CLIENT_PRICE
        yield Advice(Remedy.SPEED_UP, why)
        yield Advice(Remedy.CANCEL, why)
    elif attempt.outcome in UNDELIVERED and attempt.accepted_at is None:
        yield Advice(Remedy.RESEND, "No node is known to have it.")
    elif attempt.broadcasts > FUTILE_REBROADCASTS:
        why = f"It was broadcast {attempt.broadcasts} times at this price."
        yield Advice(Remedy.SPEED_UP, why)
        yield Advice(Remedy.CANCEL, why)
    else:
        yield Advice(Remedy.RESEND, "Nodes may have lost it.")


def _price_problem(cell: Cell, attempt: Attempt) -> str:
    price, market = cell.price, cell.market
    if market is not None and price is not None and price < market.base_fee:
        return f"No block includes it: the next base fee is {gwei(market.base_fee)}."
    if attempt.outcome in UNDERPRICED and attempt.accepted_at is None:
        return "Nodes refuse its price as too low."
    if market is not None and price is not None and price < market.current:
        return f"Its price is below the market price of {gwei(market.current)} for its speed."
    return ""
