"""The nonces of a lane as cells: mined, in flight, missing, used elsewhere or waiting. Pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import models

from relayer_service.console.lists.changelists import counted
from transactions.lanes.prices.market import MarketPrice
from transactions.lanes.prices.pricing import maximum
from transactions.models import IN_FLIGHT, Attempt, Hold, Lane, Status, Transaction, Waiting
from transactions.records.payloads import attempt_prices
from transactions.records.reasons import PATIENCE, status_reason, stop_reason

# How many cells are shown: nonces before the next one of the chain, and from it on.
MINED_SHOWN = 3
AHEAD_SHOWN = 16
# Until a block has a transaction: so many blocks, and on fast chains this long.
EXPECTED_BLOCKS = 30
MINIMUM_WAIT = timedelta(minutes=5)


class State(models.TextChoices):
    MINED = "mined", "Mined"
    IN_FLIGHT = "in_flight", "In flight"
    GAP = "gap", "Hole"
    ELSEWHERE = "elsewhere", "Used elsewhere"
    WAITING = "waiting", "Waiting"


@dataclass(frozen=True)
class Cell:
    """One nonce of a lane, or a request without one."""

    state: State
    nonce: int | None = None
    row: Transaction | None = None
    # Whether it has the nonce that the chain expects next.
    is_next: bool = False
    since: datetime | None = None
    market: MarketPrice | None = None

    @property
    def attempt(self) -> Attempt | None:
        return self.row.attempt if self.row else None

    @property
    def price(self) -> int | None:
        """The maximum price of a unit of gas that was signed; None if nothing was, or elsewhere."""
        attempt = self.attempt
        if attempt is None or not (attempt.gas_price_text or attempt.max_fee_text):
            return None
        return maximum(attempt_prices(attempt))


class NonceRange(NamedTuple):
    """The nonces that are shown, from `first` up to and without `end`; `hidden` are the nonces from `end` on."""

    first: int
    end: int
    hidden: int = 0


class Headline(NamedTuple):
    is_stuck: bool
    text: str


def expected_wait(block_seconds: float) -> timedelta:
    """Return how long a transaction of a network may wait before it counts as late."""
    return max(timedelta(seconds=EXPECTED_BLOCKS * block_seconds), MINIMUM_WAIT)


def nonce_range(lane: Lane) -> NonceRange:
    """Return the nonces to show, around the one that the chain expects next."""
    if lane.next_nonce is None:
        return NonceRange(0, 0)
    base = lane.next_nonce if lane.chain_nonce is None else min(lane.chain_nonce, lane.next_nonce)
    used_below = lane.holds.get(Hold.EXTERNAL, {}).get("used_below") or 0
    last = max(lane.next_nonce, lane.chain_nonce or 0, used_below)
    end = min(last, base + AHEAD_SHOWN)
    return NonceRange(max(lane.first_nonce or 0, base - MINED_SHOWN, 0), end, last - end)


def build_cells(
    lane: Lane,
    nonces: NonceRange,
    rows: Iterable[Transaction],
    waiting: Iterable[Transaction],
    market: Mapping[str, MarketPrice],
) -> list[Cell]:
    """Return the cells in the order of their nonces, then the requests without one.

    `rows` are those with the nonces of the range, and any before it that are still in flight.
    """
    by_nonce = {row.nonce: row for row in rows if row.nonce is not None}
    # The row of a final nonce may have been pruned.
    unpruned = range(max(nonces.first, lane.final_nonce or 0), nonces.end)
    shown = sorted({*unpruned, *by_nonce})
    cells = [_cell(lane, nonce, by_nonce.get(nonce), market) for nonce in shown]
    return [*cells, *(Cell(State.WAITING, row=row, since=row.created_at) for row in waiting)]


def _cell(lane: Lane, nonce: int, row: Transaction | None, market: Mapping[str, MarketPrice]) -> Cell:
    is_next = nonce == lane.chain_nonce
    if row is None:
        is_gap = lane.chain_nonce is not None and lane.chain_nonce <= nonce < (lane.next_nonce or 0)
        return Cell(State.GAP if is_gap else State.ELSEWHERE, nonce, is_next=is_next)
    if row.kind == Transaction.Kind.EXTERNAL:
        return Cell(State.ELSEWHERE, nonce, row, since=row.mined_at or row.created_at)
    if row.status not in IN_FLIGHT:
        return Cell(State.MINED, nonce, row, since=row.mined_at or row.finished_at)
    since = lane.head_since if is_next and lane.head_since else row.sent_at or row.created_at
    price = market.get(row.speed or Transaction.Speed.FAST)
    return Cell(State.IN_FLIGHT, nonce, row, is_next, since, price)


def headline(
    lane: Lane, cells: Sequence[Cell], counts: Mapping[str, int], patience: timedelta, now: datetime, lane_reason: str
) -> Headline:
    """Return in one sentence or two why a lane is stuck, or that it is not.

    `counts` are its open rows by status, and `lane_reason` what stops the whole lane.
    """
    queued, flying = counts.get(Status.PENDING, 0), sum(counts.get(status, 0) for status in IN_FLIGHT)
    if lane.halted_since and not lane.holds and (queued or flying) and lane.due_at >= now - PATIENCE:
        return Headline(True, f"{no_new_block(lane.halted_since, now)}. {_behind(flying, queued, 'Waiting')}")
    if lane.holds or lane.waiting in {Waiting.NODES, Waiting.SIGNER}:
        return Headline(True, f"{lane_reason} {_waiting(queued)}")
    head = next((cell for cell in cells if cell.is_next), None)
    if head and head.state == State.GAP:
        behind = f"{_plural(flying, 'transaction')} in flight cannot be mined before it is used."
        return Headline(True, f"The chain expects nonce {head.nonce}, which no transaction has: {behind}")
    if (queued or flying) and lane.due_at < now - PATIENCE:
        return Headline(True, "No worker takes the turns of this lane. Check that workers run.")
    if head and head.row and head.since and now - head.since >= patience:
        reason = status_reason(head.row, lane)
        text = f"The chain has expected nonce {head.nonce} for {_minutes(now - head.since)}. {reason}"
        return Headline(True, f"{text} {_behind(flying - 1, queued)}".rstrip())
    if queued and (stop := stop_reason(lane.relayer)):
        return Headline(True, f"{stop} {_waiting(queued)}")
    if lane.waiting:
        return Headline(True, lane_reason)
    first = next((cell for cell in cells if cell.state == State.WAITING), None)
    if first and first.row and now - first.row.created_at >= patience:
        reason = status_reason(first.row, lane)
        return Headline(True, f"The oldest request has waited for {_minutes(now - first.row.created_at)}. {reason}")
    if queued or flying:
        return Headline(False, f"It is not stuck: {flying:,} in flight, {counted(queued)} queued.")
    return Headline(False, "It is not stuck: nothing is in flight or queued.")


def no_new_block(since: datetime, now: datetime) -> str:
    return f"No new block for {_minutes(now - since).replace('minutes', 'min')}"


def _behind(flying: int, queued: int, what: str = "Behind it") -> str:
    """Return what waits, for the next nonce of the chain for example; "" if nothing does."""
    parts = [f"{flying:,} in flight"] if flying > 0 else []
    parts += [f"{counted(queued)} queued"] if queued else []
    return f"{what}: {' and '.join(parts)}." if parts else ""


def _waiting(queued: int) -> str:
    return f"{_plural(queued, 'request')} {'waits' if queued == 1 else 'wait'}." if queued else "No request waits."


def _minutes(duration: timedelta) -> str:
    minutes = int(duration.total_seconds() // 60)
    if minutes < 120:
        return _plural(minutes, "minute")
    hours = minutes // 60
    return _plural(hours, "hour") if hours < 48 else _plural(hours // 24, "day")


def _plural(count: int, noun: str) -> str:
    return f"{counted(count)} {noun}{'' if count == 1 else 's'}"
