"""`judge`, from rows and a view of the chain to judgments: a table of cases, and what holds for any view."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.networks import networks
from transactions.models import FINAL, IN_FLIGHT, Attempt, Lane, Status, Transaction
from transactions.records.reasons import CANCELED_TOO_LATE, REPLACED_TOO_LATE
from transactions.records.states import Cause
from transactions.settlement.judging import (
    REVERTED,
    Consumed,
    Contradicted,
    Disputed,
    Finished,
    Judgment,
    Mined,
    Reorged,
    Watched,
    judge,
    receipts_to_compare,
    receipts_to_read,
)
from transactions.settlement.reading import Block, ChainView, Counts, Receipt

pytestmark = pytest.mark.both_engines

ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
NETWORK = replace(networks()["mainnet"], confirmations=3, finality_depth=10)
BLOCK = Block(100, "0x" + "aa" * 32)
OTHER = Block(100, "0x" + "bb" * 32)


def attempt(number: int = 1, purpose: str = "send", version: int = 1) -> Attempt:
    values = {"pk": number, "number": number, "purpose": purpose, "payload_version": version}
    return Attempt(**values, nonce=7, hash=f"0x{number:064x}")


def row(status: str, *attempts: Attempt, mined: Attempt | None = None, **columns: Any) -> Watched:
    where = {"block_number": BLOCK.number, "block_hash": BLOCK.hash, "succeeded": True} if mined else {}
    found = Transaction(pk=1, status=status, nonce=7, mined_attempt=mined, **where | columns)
    return Watched(found, attempts or (attempt(),))


def lane(**columns: Any) -> Lane:
    return Lane(address=ADDRESS, **columns)


def view(head: int = 100, *receipts: Receipt, counts: tuple[int, int] = (8, 0), **changes: Any) -> ChainView:
    """Return a view with the block of `BLOCK` at its height, the latest count and the final one."""
    values: dict[str, Any] = {
        "url": "http://node",
        "head": Block(head, "0x" + "cc" * 32),
        "final_number": head - 10,
        "hashes": {BLOCK.number: BLOCK.hash},
        "counts": {ADDRESS: Counts(counts[0], counts[0], counts[1], head - 10)},
        "receipts": {receipt.hash: receipt for receipt in receipts},
    }
    return ChainView(**values | changes)


def receipt(of: Attempt, block: Block = BLOCK, succeeded: bool = True) -> Receipt:
    return Receipt(of.hash, block, succeeded, 21_000, 10**9)


SEND, BUMP, EXPIRE, CLOSE = attempt(), attempt(2, "bump"), attempt(2, "expire"), attempt(2, "close")
CANCEL, REPLACE = attempt(2, "cancel"), attempt(2, "replace", 2)
GAP, FOUND = attempt(1, "gap"), attempt(2, "external")


def judgment(watched: Watched, seen: ChainView, of: Lane | None = None) -> Judgment | None:
    found = judge(of or lane(), [watched], seen, NETWORK)
    return found[0] if found else None


MOVED = Block(101, "0x" + "dd" * 32)


REPLACED = {100: OTHER.hash}


FINAL_ROW = row("confirmed", mined=SEND)


MINED_ROW = row("mined", mined=SEND)


SENT_ROW = row("sent")


@pytest.mark.parametrize(
    ("watched", "seen", "expected"),
    [
        # A receipt of a block that is not in the chain, and none at the latest block, decide nothing.
        (SENT_ROW, view(101, receipt(SEND, OTHER)), None),
        (SENT_ROW, view(120, counts=(8, 7)), None),
        # None of a nonce in a final block is to be explained.
        (SENT_ROW, view(120, counts=(8, 8)), Consumed(SENT_ROW.row)),
        # Its block was replaced, or it is in another one now.
        (MINED_ROW, view(102, hashes=REPLACED), Reorged(MINED_ROW.row)),
        (MINED_ROW, view(102, receipt(SEND, MOVED)), Reorged(MINED_ROW.row)),
        # A receipt that was invented does not hold a row.
        (MINED_ROW, view(101, counts=(7, 0)), None),
        (MINED_ROW, view(102, counts=(7, 0)), Reorged(MINED_ROW.row)),
        (MINED_ROW, view(102, counts=(8, 0)), None),
        # A node without the block, or without the receipt.
        (MINED_ROW, view(99, hashes={}), None),
        (MINED_ROW, view(200), None),
        # Confirmations count the block itself.
        (MINED_ROW, view(101, receipt(SEND)), None),
        (MINED_ROW, view(102, receipt(SEND)), Finished(MINED_ROW.row, Cause.SUCCEEDED, "", receipt(SEND))),
        # A final row that left the chain, is in another block, or has another result there.
        (FINAL_ROW, view(104, hashes=REPLACED),
         Contradicted(FINAL_ROW.row, "block 100 was replaced, and the transaction is in no block")),
        (FINAL_ROW, view(104, receipt(SEND, MOVED), hashes=REPLACED), None),
        (FINAL_ROW, view(104, receipt(SEND, MOVED, succeeded=False), hashes=REPLACED),
         Contradicted(FINAL_ROW.row, "the transaction has another result in block 101")),
    ],
)  # fmt: skip
def test_what_is_judged(watched: Watched, seen: ChainView, expected: Judgment | None) -> None:
    assert judgment(watched, seen) == expected


@pytest.mark.parametrize("status", IN_FLIGHT)
@pytest.mark.parametrize("which", [SEND, BUMP, EXPIRE])
@pytest.mark.parametrize("succeeded", [True, False])
def test_a_receipt_of_any_attempt_is_mined(status: str, which: Attempt, succeeded: bool) -> None:
    watched = row(status, SEND, which)
    found = receipt(which, succeeded=succeeded)
    assert judgment(watched, view(100, found)) == Mined(watched.row, which, found)


@pytest.mark.parametrize(
    ("mined", "succeeded", "columns", "cause", "reason"),
    [
        (BUMP, True, {}, Cause.SUCCEEDED, ""),
        (FOUND, True, {}, Cause.SUCCEEDED, ""),
        (FOUND, False, {}, Cause.REVERTED, REVERTED),
        (EXPIRE, True, {}, Cause.NOOP_MINED, "Because."),
        (EXPIRE, False, {}, Cause.NOOP_MINED, "Because."),
        (CLOSE, True, {}, Cause.NOOP_MINED, "Because."),
        (CANCEL, True, {}, Cause.NOOP_MINED, "Because."),
        (GAP, True, {"kind": "gap"}, Cause.GAP_CLOSED, ""),
        (GAP, False, {"kind": "gap"}, Cause.GAP_CLOSED, ""),
        # What was requested too late.
        (SEND, True, {"requested_action": "cancel"}, Cause.SUCCEEDED, CANCELED_TOO_LATE),
        (SEND, False, {"requested_action": "cancel"}, Cause.REVERTED, f"{REVERTED} {CANCELED_TOO_LATE}"),
        (SEND, True, {"payload_version": 2}, Cause.SUCCEEDED, REPLACED_TOO_LATE),
        (SEND, True, {"requested_action": "cancel", "payload_version": 2}, Cause.SUCCEEDED,
         f"{CANCELED_TOO_LATE} {REPLACED_TOO_LATE}"),
        (REPLACE, True, {"payload_version": 2}, Cause.SUCCEEDED, ""),
        (SEND, True, {"requested_action": "speed_up"}, Cause.SUCCEEDED, ""),
        # The no-op of an expiry, which a cancellation has taken over.
        (EXPIRE, True, {"requested_action": "cancel"}, Cause.NOOP_MINED, "Because."),
    ],
)  # fmt: skip
def test_why_a_row_is_final_follows_from_what_was_mined(
    mined: Attempt, succeeded: bool, columns: dict[str, Any], cause: Cause, reason: str
) -> None:
    watched = row("mined", mined, mined=mined, action_reason="Because.", **columns)
    found = receipt(mined, succeeded=succeeded)
    assert judgment(watched, view(110, found)) == Finished(watched.row, cause, reason, found)


def test_receipts_are_read_of_every_attempt_that_decides() -> None:
    # That the count covers, and again before a row becomes final, or if it is disputed.
    rows = [row("submitted", SEND, BUMP), Watched(Transaction(pk=2, status="sent", nonce=8), [attempt(3)])]
    assert receipts_to_read(lane(), rows, view(100, counts=(8, 0)), NETWORK) == [SEND.hash, BUMP.hash]
    watched = row("mined", SEND, BUMP, mined=BUMP)
    assert receipts_to_read(lane(), [watched], view(101), NETWORK) == []
    assert receipts_to_read(lane(), [watched], view(102), NETWORK) == [SEND.hash, BUMP.hash]
    assert receipts_to_read(lane(), [HELD], view(120), NETWORK) == [SEND.hash, CANCEL.hash]


@pytest.mark.parametrize(
    ("watched", "of"),
    [
        (row("mined", SEND, CANCEL, mined=SEND), lane()),
        (row("mined", SEND, REPLACE, mined=SEND), lane()),
        (row("mined", SEND, REPLACE, mined=REPLACE), lane()),
        (row("mined", SEND, EXPIRE, mined=SEND), lane()),
        (row("mined", SEND, EXPIRE, mined=EXPIRE), lane()),
        (row("mined", GAP, mined=GAP, kind="gap"), lane()),
        (row("mined", SEND, mined=SEND), lane(holds={"lost_commits": {}})),
    ],
)
def test_rows_with_rivals_become_final_at_finality_depth(watched: Watched, of: Lane) -> None:
    assert watched.row.mined_attempt is not None
    found = receipt(watched.row.mined_attempt)
    assert judgment(watched, view(109, found), of) is None
    assert isinstance(judgment(watched, view(110, found), of), Finished)


blocks = st.builds(Block, st.integers(90, 110), st.sampled_from([BLOCK.hash, OTHER.hash]))
attempts = st.lists(st.sampled_from(["send", "bump", "expire", "close"]), min_size=1, max_size=3).map(
    lambda purposes: [attempt(number, purpose) for number, purpose in enumerate(purposes, 1)]
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Watched, ChainView]:
    status = draw(st.sampled_from([*IN_FLIGHT, Status.MINED, *FINAL]))
    made = draw(attempts)
    mined = draw(st.sampled_from(made)) if status not in IN_FLIGHT else None
    known = draw(st.lists(st.sampled_from(made), unique_by=lambda each: each.hash))
    found = [receipt(each, draw(blocks), draw(st.booleans())) for each in known]
    hashes = draw(st.dictionaries(st.integers(90, 110), st.sampled_from([BLOCK.hash, OTHER.hash])))
    final = draw(st.integers(0, 9))
    counts = (draw(st.integers(final, 9)), final)
    seen = view(draw(st.integers(90, 120)), *found, counts=counts, hashes=hashes)
    return row(status, *made, mined=mined), seen


@given(cases())
def test_every_verdict_has_its_evidence(case: tuple[Watched, ChainView]) -> None:
    watched, seen = case
    found, judged = judgment(watched, seen), watched.row
    match found:
        case Mined(_, which, proof):
            assert judged.status in IN_FLIGHT
            assert seen.receipts[which.hash] == proof
            assert which in watched.attempts
        case Reorged():
            assert judged.status == Status.MINED
            assert judged.mined_attempt is not None
            moved = seen.receipts.get(judged.mined_attempt.hash)
            assert seen.hashes[100] != BLOCK.hash or (moved and moved.block.hash != BLOCK.hash)
        case Finished(_, cause, _, proof):
            assert (judged.status, seen.hashes[100], proof.block.hash) == (Status.MINED, BLOCK.hash, BLOCK.hash)
            assert seen.head.number >= (110 if watched.has_rivals else 102)
            assert cause in {Cause.SUCCEEDED, Cause.REVERTED, Cause.NOOP_MINED}
        case Consumed():
            assert judged.status in IN_FLIGHT
            assert seen.counts[ADDRESS].final == max(8, seen.counts[ADDRESS].final or 0)
        case Contradicted():
            assert judged.status in FINAL
            assert seen.hashes[100] == OTHER.hash


CANCELING = row("mined", SEND, CANCEL, mined=CANCEL, requested_action="cancel")
HELD = row(
    "mined", SEND, CANCEL, mined=CANCEL, requested_action="cancel", status_reason="Nodes contradict each other: "
)
PLAIN = row("mined", mined=SEND)


@pytest.mark.parametrize(
    ("watched", "found", "second", "expected"),
    [
        # The second node has another attempt, or another result.
        (CANCELING, receipt(CANCEL), [receipt(SEND)], Disputed),
        (CANCELING, receipt(CANCEL), [receipt(CANCEL), receipt(SEND)], Disputed),
        (CANCELING, receipt(CANCEL), [receipt(CANCEL, succeeded=False)], Disputed),
        (PLAIN, receipt(SEND, succeeded=False), [receipt(SEND)], Disputed),
        # Silence, lag and another block are no contradiction; there may be no second node.
        (CANCELING, receipt(CANCEL), [], Cause.NOOP_MINED),
        (CANCELING, receipt(CANCEL), [receipt(CANCEL, OTHER)], Cause.NOOP_MINED),
        (CANCELING, receipt(CANCEL), [receipt(CANCEL)], Cause.NOOP_MINED),
        (CANCELING, receipt(CANCEL), None, Cause.NOOP_MINED),
        (PLAIN, receipt(SEND, succeeded=False), [], Cause.REVERTED),
        # Nothing is compared.
        (PLAIN, receipt(SEND), [receipt(SEND, succeeded=False)], Cause.SUCCEEDED),
        # Once they have contradicted each other, only agreement ends it, or a single node.
        (HELD, receipt(CANCEL), [receipt(SEND)], Disputed),
        (HELD, receipt(CANCEL), [], None),
        (HELD, receipt(CANCEL), [receipt(CANCEL)], Cause.NOOP_MINED),
        (HELD, receipt(CANCEL), None, Cause.NOOP_MINED),
        (HELD, receipt(SEND), [receipt(CANCEL)], None),
        (HELD, receipt(SEND), [], None),
        (HELD, receipt(SEND), [receipt(SEND)], Reorged),
        (HELD, receipt(SEND), None, Reorged),
        # It was another attempt that was mined.
        (CANCELING, receipt(SEND), [receipt(SEND)], Reorged),
    ],
)
def test_a_second_node_that_contradicts_holds_a_row(
    watched: Watched, found: Receipt, second: list[Receipt] | None, expected: Any
) -> None:
    reported = None if second is None else {each.hash: each for each in second}
    seen = view(120, found, second_url="http://other", second=reported)
    decided = judgment(watched, seen)
    assert (decided.cause if isinstance(decided, Finished) else decided and type(decided)) == expected
    if isinstance(decided, Finished):
        assert decided.is_corroborated is (second == [found])


@pytest.mark.parametrize(
    ("watched", "found", "expected"),
    [
        (CANCELING, receipt(CANCEL), [SEND, CANCEL]),
        (CANCELING, receipt(SEND), []),
        (row("mined", SEND, CANCEL, mined=SEND), receipt(SEND), [SEND, CANCEL]),
        (PLAIN, receipt(SEND, succeeded=False), [SEND]),
        (PLAIN, receipt(SEND), []),
        (HELD, receipt(SEND), [SEND, CANCEL]),
        (row("submitted", SEND, CANCEL), receipt(SEND), []),
    ],
)
def test_a_second_node_is_asked_where_a_charge_may_be_released(
    watched: Watched, found: Receipt, expected: list[Attempt]
) -> None:
    asked = receipts_to_compare(lane(), [watched], view(120, found), NETWORK)
    assert asked == [each.hash for each in expected]


@pytest.mark.parametrize(("second", "ends"), [(None, True), ([], False), ([receipt(GAP)], True)])
def test_after_lost_commits_a_second_node_must_agree(second: list[Receipt] | None, ends: bool) -> None:
    watched, held = row("mined", GAP, mined=GAP, kind="gap"), lane(holds={"lost_commits": {}})
    reported = None if second is None else {each.hash: each for each in second}
    seen = view(120, receipt(GAP), second_url="http://other", second=reported)
    assert isinstance(judgment(watched, seen, held), Finished) is ends
    assert receipts_to_compare(held, [watched], view(120, receipt(GAP)), NETWORK) == [GAP.hash]
