"""Each lie of the node, and what `send` makes of it: the outcome, what reached the chain, and what left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from chain.broadcast.sending import Broadcast, Outcome, SignedTransaction, send
from chain.nodes import attempts
from tests.chain.faults import SECRET
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.transactions import lies
from tests.transactions.hardhat import CHAIN_ID, LocalChain, hash_of, signed
from tests.transactions.lying_node import SEND, Lie, LyingNode, lying_node

ACCEPTED = Broadcast(Outcome.ACCEPTED)
TRANSACTIONS = [signed(nonce=nonce) for nonce in range(3)]
HASHES = [hash_of(one) for one in TRANSACTIONS]
INTERRUPTED = Broadcast(Outcome.UNKNOWN, "the connection was interrupted")
LIMITED = Broadcast(Outcome.UNKNOWN, "rate limit exceeded")
INVALID = Broadcast(Outcome.UNKNOWN, "returned an invalid response")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy machine be as slow as it likes."""
    monkeypatch.setattr(attempts, "ATTEMPT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(attempts, "DEADLINE_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def node(local_chain: LocalChain) -> Iterator[LyingNode]:
    with lying_node(local_chain.url) as found:
        yield found


def broadcast(node: LyingNode, *transactions: bytes, **options: Any) -> list[Broadcast]:
    signed = [SignedTransaction(raw) for raw in transactions or TRANSACTIONS]
    return [each for each in send([(node.url, 100)], signed, CHAIN_ID, **options) if each is not None]


@pytest.mark.parametrize(
    ("lie", "outcomes", "reached"),
    [
        (lies.drop_request, [INTERRUPTED] * 3, 0),
        (lies.drop_answer, [INTERRUPTED] * 3, 3),
        (lies.break_off, [INTERRUPTED] * 3, 3),
        (lies.answer_twice, [ACCEPTED] * 3, 3),
        (lies.status(429, with_json=False), [LIMITED] * 3, 0),
        (lies.status(429, with_json=True), [LIMITED] * 3, 0),
        (lies.status(502, with_json=True), [Broadcast(Outcome.UNKNOWN, "returned HTTP 502")] * 3, 0),
        (lies.refuse_batch, [ACCEPTED] * 3, 3),
        (lies.shorten, [ACCEPTED, ACCEPTED, INVALID], 3),
        (lies.reorder, [ACCEPTED] * 3, 3),
        (lies.rate_limit(1), [ACCEPTED, LIMITED, ACCEPTED], 2),
        (
            lies.refuse("internal error", -32603),
            [Broadcast(Outcome.UNKNOWN, "internal error", is_rejected_by_all=True)] * 3,
            0,
        ),
        (lies.forget, [ACCEPTED] * 3, 0),
        (lies.change_hash, [Broadcast(Outcome.UNKNOWN, "returned another hash than the transaction's")] * 3, 3),
        (lies.report_chain(5), [Broadcast(Outcome.UNKNOWN, "invalid sender")] * 3, 0),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_lie_has_its_outcomes_and_the_same_bytes_sent_again_count_once(
    node: LyingNode,
    local_chain: LocalChain,
    lie: Lie,
    outcomes: list[Broadcast],
    reached: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    node.lie(SEND, lie)
    assert broadcast(node) == outcomes
    assert len(local_chain.waiting()) == reached
    assert list(dict.fromkeys(node.raw)) == TRANSACTIONS
    assert SECRET not in caplog.text

    node.be_honest()
    assert {one.outcome for one in broadcast(node)} <= {Outcome.ACCEPTED, Outcome.KNOWN}
    assert local_chain.waiting() == HASHES


def test_an_answer_that_is_held_back_is_an_unknown_outcome(
    node: LyingNode, local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "ATTEMPT_SECONDS", 1)
    released = threading.Event()
    node.lie_once(SEND, lies.hold(released))
    assert broadcast(node, TRANSACTIONS[0]) == [Broadcast(Outcome.UNKNOWN, "did not respond in time")]
    assert local_chain.waiting() == []
    released.set()
    wait_until(lambda: local_chain.waiting() == HASHES[:1])


def test_an_answer_that_comes_twice_is_never_that_of_another_transaction(node: LyingNode) -> None:
    node.lie(SEND, lies.answer_late_again)
    for number, transaction in enumerate(signed(nonce=nonce) for nonce in range(5)):
        (found,) = broadcast(node, transaction)
        assert found in (ACCEPTED, INVALID), number


def test_transactions_that_overtake_each_other_are_sent_again_and_a_gap_is_not(
    node: LyingNode, local_chain: LocalChain
) -> None:
    local_chain.mine_at_once()
    gapped = TRANSACTIONS[1:]
    assert [one.outcome for one in broadcast(node, *gapped)] == [Outcome.NONCE_TOO_HIGH] * 2
    assert node.raw == gapped

    node.raw.clear()
    node.lie(SEND, lies.split)
    assert broadcast(node) == [ACCEPTED] * 3
    assert (local_chain.count(), node.raw) == (3, [*TRANSACTIONS, *gapped])


def test_openzeppelin_843_a_future_nonce_without_its_predecessor_is_refused(
    node: LyingNode, local_chain: LocalChain
) -> None:
    """OpenZeppelin 843: Arbitrum's sequencer refuses a future nonce."""
    local_chain.mine_at_once()
    gapped = broadcast(node, *TRANSACTIONS[1:], one_at_a_time=True)
    assert [one.outcome for one in gapped] == [Outcome.NONCE_TOO_HIGH] * 2
    assert broadcast(node, one_at_a_time=True) == [ACCEPTED] * 3
    assert local_chain.count() == 3
