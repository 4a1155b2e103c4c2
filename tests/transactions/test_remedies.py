"""The recommendation for each cell of a strip, and the sentence above it: no row is stored for this."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chain.broadcast.sending import Outcome
from relayers.models import Relayer
from transactions.console.stuck.cells import Cell, State, build_cells, expected_wait, headline, nonce_range
from transactions.console.stuck.remedies import Remedy, recommend
from transactions.lanes.prices.market import MarketPrice
from transactions.models import Attempt, Lane, Status, Transaction

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
LATE, RECENT = NOW - timedelta(minutes=20), NOW - timedelta(seconds=30)
PATIENCE = timedelta(minutes=6)
GWEI = 10**9
HELD = {"since": "2026-01-01T11:00:00Z", "details": ""}
FUNDS = {"waiting": "funds", "waiting_details": "0.5 ETH missing."}
# The base fee is 10 gwei, and the market price 12 gwei.
MARKET = MarketPrice("fast", 10 * GWEI, 2 * GWEI, 0)


def lane(**values: Any) -> Lane:
    account = Relayer(network="sepolia", paused=values.pop("paused", False))
    defaults = {"chain_nonce": 42, "next_nonce": 45, "first_nonce": 0, "due_at": NOW}
    return Lane(chain_id=11155111, relayer=account, **(defaults | values))


def attempt(**values: Any) -> Attempt:
    defaults = {
        "number": 1,
        "max_fee_text": str(20 * GWEI),
        "max_priority_fee_text": str(GWEI),
        "signed_at": LATE,
        "first_broadcast_at": LATE,
        "last_broadcast_at": RECENT,
        "accepted_at": LATE,
        "broadcasts": 2,
        "outcome": Outcome.ACCEPTED,
        "max_cost_text": "1000",
    }
    return Attempt(**(defaults | values))


def in_flight(nonce: int = 42, *, since: datetime = LATE, row: Any = None, market: Any = None, **values: Any) -> Cell:
    tx = Transaction(nonce=nonce, status=Status.SUBMITTED, last_attempt=attempt(**values), **(row or {}))
    return Cell(State.IN_FLIGHT, nonce, tx, nonce == 42, since, market)


def low_price(gwei: int) -> dict[str, Any]:
    return {"max_fee_text": str(gwei * GWEI), "market": MARKET}


def waiting(**values: Any) -> Cell:
    return Cell(State.WAITING, row=Transaction(**values), since=LATE)


NEVER: dict[str, Any] = {"outcome": "", "accepted_at": None}
REFUSED_PRICE: dict[str, Any] = {"outcome": Outcome.UNDERPRICED, "accepted_at": None}


@pytest.mark.parametrize(
    ("cell", "values", "expected"),
    [
        # In flight, and next.
        (in_flight(), {}, Remedy.RESEND),
        (in_flight(since=RECENT), {}, None),
        (in_flight(broadcasts=9), {}, Remedy.SPEED_UP),
        (in_flight(broadcasts=9, number=2, first_broadcast_at=RECENT), {}, None),
        (in_flight(**low_price(9)), {}, Remedy.SPEED_UP),
        (in_flight(**low_price(11)), {}, Remedy.SPEED_UP),
        (in_flight(**low_price(13)), {}, Remedy.RESEND),
        (in_flight(since=RECENT, **low_price(9)), {}, None),
        (in_flight(**REFUSED_PRICE), {}, Remedy.SPEED_UP),
        (in_flight(**NEVER), {}, Remedy.RESEND),
        (in_flight(outcome=Outcome.POOL_LIMIT, accepted_at=None), {}, Remedy.RESEND),
        (in_flight(outcome=Outcome.REFUSED), {}, Remedy.CANCEL),
        (in_flight(outcome=Outcome.FEE_CAP), {}, Remedy.CANCEL),
        (in_flight(outcome=Outcome.NONCE_TOO_LOW), {}, None),
        (in_flight(outcome=Outcome.INSUFFICIENT_FUNDS), {}, Remedy.TOP_UP),
        (in_flight(outcome=Outcome.INSUFFICIENT_FUNDS, since=RECENT), {}, Remedy.TOP_UP),
        (in_flight(row={"requested_action": "cancel"}, **low_price(9)), {}, None),
        (in_flight(row={"requested_action": "speed_up"}, **low_price(9)), {}, None),
        (in_flight(row={"requested_action": "cancel"}, purpose="cancel", **low_price(9)), {}, Remedy.RESEND),
        (in_flight(), {"waiting": "nodes"}, None),
        (in_flight(), {"holds": {"operator": HELD}}, Remedy.RESEND),
        (in_flight(), {"holds": {"chain": HELD}}, Remedy.RELEASE),
        # In flight, but not next.
        (in_flight(43, **low_price(9)), {}, None),
        (in_flight(41), {}, None),
        # Holes, and what others sent.
        (Cell(State.GAP, 42, is_next=True), {}, Remedy.FILL_GAP),
        (Cell(State.GAP, 43), {}, None),
        (Cell(State.ELSEWHERE, 41), {}, Remedy.HOLD),
        (Cell(State.ELSEWHERE, 41), {"holds": {"external": HELD}}, None),
        (Cell(State.ELSEWHERE, 41), {"accepted_below": 42}, None),
        (Cell(State.ELSEWHERE, 41, since=NOW - timedelta(days=2)), {}, None),
        (Cell(State.MINED, 41, Transaction(), since=LATE), {}, None),
        # Without a nonce.
        (waiting(), {}, None),
        (waiting(), {"holds": {"operator": HELD}}, Remedy.RELEASE),
        (waiting(), {"holds": {"chain": HELD}}, Remedy.RELEASE),
        (waiting(), {"holds": {"operator": HELD, "lost_commits": HELD}}, None),
        (waiting(), {"holds": {"external": HELD}}, None),
        (waiting(requested_action="cancel"), {"holds": {"operator": HELD}}, None),
        (waiting(), {"paused": True}, None),
        (waiting(reason_code="funds"), FUNDS, Remedy.TOP_UP),
        (waiting(), FUNDS, None),
        (waiting(reason_code="funds"), {**FUNDS, "paused": True}, None),
        (waiting(), {"waiting": "signer"}, None),
    ],
)
def test_the_recommendation(cell: Cell, values: dict[str, Any], expected: Remedy | None) -> None:
    assert recommend(cell, lane(**values), PATIENCE, NOW).remedy == expected


def test_the_next_best_is_recommended_instead_of_what_is_refused() -> None:
    cell = in_flight(**low_price(9))
    refused = {Remedy.SPEED_UP: "Relayer paused."}
    found = recommend(cell, lane(), PATIENCE, NOW, lambda cell, remedy: refused.get(remedy, ""))
    assert (found.remedy, found.why) == (Remedy.CANCEL, "No block includes it: the next base fee is 10 gwei.")
    found = recommend(cell, lane(), PATIENCE, NOW, lambda cell, remedy: "It is mined.")
    assert found.remedy is None
    assert found.why == ("No block includes it: the next base fee is 10 gwei. Speed up is not possible: It is mined.")
    found = recommend(in_flight(row={"pricing": "eip1559"}, **low_price(9)), lane(), PATIENCE, NOW)
    assert found.remedy == Remedy.SPEED_UP
    assert found.why.endswith("Its client set the price, which the service does not raise.")
    assert (expected_wait(12), expected_wait(0.25)) == (timedelta(minutes=6), timedelta(minutes=5))


def row(nonce: int | None, status: str = "submitted", **values: Any) -> Transaction:
    return Transaction(nonce=nonce, status=status, sent_at=LATE, created_at=LATE, **values)


def test_cells_show_what_every_nonce_is_used_for() -> None:
    account = lane(chain_nonce=42, next_nonce=46, first_nonce=40, head_since=RECENT)
    nonces = nonce_range(account)
    rows = [row(40, "confirmed"), row(43), row(44), row(41, "confirmed", kind="external")]
    cells = build_cells(account, nonces, rows, [row(None, "pending")], {"fast": MARKET})
    assert [(cell.nonce, cell.state.value, cell.is_next) for cell in cells] == [
        (40, "mined", False),
        (41, "elsewhere", False),
        (42, "gap", True),
        (43, "in_flight", False),
        (44, "in_flight", False),
        (45, "gap", False),
        (None, "waiting", False),
    ]
    assert cells[3].market == MARKET
    (head,) = build_cells(
        lane(next_nonce=43, first_nonce=42, head_since=RECENT),
        nonce_range(lane(next_nonce=43, first_nonce=42)),
        [row(42)],
        [],
        {},
    )
    assert (head.since, head.is_next) == (RECENT, True)


def test_nonces_of_another_program_are_shown_above_those_of_the_lane() -> None:
    account = lane(chain_nonce=44, next_nonce=42, holds={"external": {**HELD, "used_below": 45}})
    cells = build_cells(account, nonce_range(account), [], [], {})
    assert [(cell.nonce, cell.state.value) for cell in cells][3:] == [
        *((42, "elsewhere"), (43, "elsewhere"), (44, "elsewhere")),
    ]
    # Only some of many nonces are shown, and no final ones whose rows were pruned.
    nonces = nonce_range(lane(chain_nonce=42, next_nonce=1042))
    assert (nonces.first, nonces.end, nonces.hidden) == (39, 58, 984)
    assert nonce_range(lane(chain_nonce=None, next_nonce=None)).end == 0
    account = lane(chain_nonce=42, next_nonce=42, final_nonce=41)
    assert [cell.nonce for cell in build_cells(account, nonce_range(account), [], [], {})] == [41]


@pytest.mark.parametrize(
    ("cells", "values", "counts", "expected"),
    [
        ([], {}, {}, (False, "It is not stuck: nothing is in flight or queued.")),
        ([in_flight(since=RECENT)], {}, {"submitted": 3, "pending": 2},
         (False, "It is not stuck: 3 in flight, 2 queued.")),
        ([], {"holds": {"operator": HELD}}, {"pending": 1}, (True, "WHY. 1 request waits.")),
        ([], {"waiting": "nodes"}, {}, (True, "WHY. No request waits.")),
        ([], FUNDS, {"pending": 1}, (True, "WHY.")),
        ([], {"paused": True}, {"pending": 2}, (True, "The relayer is paused. 2 requests wait.")),
        ([], {"paused": True}, {}, (False, "It is not stuck: nothing is in flight or queued.")),
        ([Cell(State.GAP, 42, is_next=True)], {}, {"submitted": 2},
         (True, ("The chain expects nonce 42, which no transaction has: 2 transactions in flight cannot be mined "
                "before it is used."))),
        ([], {"due_at": NOW - timedelta(minutes=5)}, {"pending": 1},
         (True, "No worker takes the turns of this lane. Check that workers run.")),
        ([in_flight(row={"status_reason": "The cap is 9 gwei."})], {}, {"submitted": 2, "pending": 1000},
         (True, ("The chain has expected nonce 42 for 20 minutes. The cap is 9 gwei. Behind it: 1 in flight and 1,000 "
                 "queued."))),
        ([waiting(created_at=NOW - timedelta(hours=3), status_reason="The price is above the cap.")], {},
         {"pending": 1}, (True, "The oldest request has waited for 3 hours. The price is above the cap.")),
    ],
)  # fmt: skip
def test_the_headline(
    cells: list[Cell], values: dict[str, Any], counts: dict[str, int], expected: tuple[bool, str]
) -> None:
    found = headline(lane(**values), cells, counts, PATIENCE, NOW, "WHY.")
    assert (found.is_stuck, found.text) == expected
