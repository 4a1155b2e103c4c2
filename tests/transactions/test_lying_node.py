"""Each lie of the node, and what `send` makes of it: the outcome, what reached the chain, and what left."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from chain.broadcast.sending import Broadcast, Outcome, SignedTransaction, send
from chain.nodes import attempts
from tests.chain import faults
from tests.chain.faults import SECRET
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.relayers.factories import ADDRESS
from tests.transactions import lies
from tests.transactions.hardhat import CHAIN_ID, GWEI, LocalChain, hash_of, signed
from tests.transactions.lying_node import SEND, Lie, LyingNode, lying_node

ACCEPTED = Broadcast(Outcome.ACCEPTED)
TRANSACTIONS = [signed(nonce=nonce) for nonce in range(3)]
HASHES = [hash_of(one) for one in TRANSACTIONS]
INTERRUPTED = Broadcast(Outcome.UNKNOWN, "the connection was interrupted")
LIMITED = Broadcast(Outcome.UNKNOWN, "rate limit exceeded")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy machine be as slow as it likes."""
    monkeypatch.setattr(attempts, "ATTEMPT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(attempts, "DEADLINE_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def node(local_chain: LocalChain) -> Iterator[LyingNode]:
    with lying_node(local_chain.url) as found:
        yield found


def ask(node: LyingNode, *calls: tuple[str, list[Any]]) -> Any:
    """Ask the proxy itself, as any client would: one call, or a batch."""
    asked = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(calls)
    ]
    body = json.dumps(asked if len(asked) > 1 else asked[0]).encode()
    # urllib does not take the user info of a URL.
    url = f"http://127.0.0.1:{node.server.server_address[1]}"
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=PATIENCE_SECONDS) as response:
        return json.load(response)


def broadcast(node: LyingNode, *transactions: bytes, **options: Any) -> list[Broadcast]:
    signed = [SignedTransaction(raw) for raw in transactions or TRANSACTIONS]
    return [each for each in send([(node.url, 100)], signed, CHAIN_ID, **options) if each is not None]


def test_an_honest_node_passes_all_on_and_records_it(node: LyingNode, local_chain: LocalChain) -> None:
    assert broadcast(node) == [ACCEPTED] * 3
    assert (node.raw, local_chain.waiting(), node.told) == (TRANSACTIONS, HASHES, [])


@pytest.mark.parametrize(
    ("lie", "outcomes", "reached"),
    [
        (lies.drop_request, [INTERRUPTED] * 3, 0),
        (lies.drop_answer, [INTERRUPTED] * 3, 3),
        (lies.break_off, [INTERRUPTED] * 3, 3),
        (lies.answer_twice, [ACCEPTED] * 3, 3),
        (lies.delay(0.05), [ACCEPTED] * 3, 3),
        (lies.status(429, with_json=False), [LIMITED] * 3, 0),
        (lies.status(429, with_json=True), [LIMITED] * 3, 0),
        (lies.status(500, with_json=False), [Broadcast(Outcome.UNKNOWN, "returned HTTP 500")] * 3, 0),
        (lies.status(502, with_json=True), [Broadcast(Outcome.UNKNOWN, "returned HTTP 502")] * 3, 0),
        (lies.refuse_batch, [ACCEPTED] * 3, 3),
        (lies.shorten, [ACCEPTED, ACCEPTED, Broadcast(Outcome.UNKNOWN, "returned an invalid response")], 3),
        (lies.reorder, [ACCEPTED] * 3, 3),
        (lies.split, [ACCEPTED] * 3, 3),
        (lies.rate_limit(1), [ACCEPTED, LIMITED, ACCEPTED], 2),
        (
            lies.refuse("internal error", -32603),
            [Broadcast(Outcome.UNKNOWN, "internal error", is_rejected_by_all=True)] * 3,
            0,
        ),
        (lies.refuse("OldNonce", -32010), [Broadcast(Outcome.NONCE_TOO_LOW, "OldNonce")] * 3, 0),
        (lies.forget, [ACCEPTED] * 3, 0),
        (
            lies.change_hash,
            [Broadcast(Outcome.UNKNOWN, "returned another hash than the transaction's")] * 3,
            3,
        ),
        (lies.report_chain(5), [Broadcast(Outcome.UNKNOWN, "invalid sender")] * 3, 0),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_lie_has_its_outcomes(
    node: LyingNode, local_chain: LocalChain, lie: Lie, outcomes: list[Broadcast], reached: int
) -> None:
    node.lie(SEND, lie)
    assert broadcast(node) == outcomes
    assert len(local_chain.waiting()) == reached
    assert list(dict.fromkeys(node.raw)) == TRANSACTIONS


def test_the_same_bytes_sent_again_after_each_lie_reach_the_chain_once(
    node: LyingNode, local_chain: LocalChain
) -> None:
    for lie in lies.SEEDED:
        local_chain.reset()
        node.lie_once(SEND, lie)
        broadcast(node)
        again = broadcast(node)
        assert {one.outcome for one in again} <= {Outcome.ACCEPTED, Outcome.KNOWN}
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
        assert found in (ACCEPTED, Broadcast(Outcome.UNKNOWN, "returned an invalid response")), number


def test_a_node_on_another_chain_gets_no_transaction(node: LyingNode) -> None:
    node.lie("eth_chainId", lies.report_chain(5))
    assert broadcast(node) == [Broadcast(Outcome.UNKNOWN, "on chain 5 instead of 31337")] * 3
    assert node.raw == []


def test_transactions_that_overtake_each_other_are_sent_again(node: LyingNode, local_chain: LocalChain) -> None:
    local_chain.mine_at_once()
    node.lie(SEND, lies.split)
    assert broadcast(node) == [ACCEPTED] * 3
    assert (local_chain.count(), node.raw) == (3, [*TRANSACTIONS, *TRANSACTIONS[1:]])


def test_a_real_gap_is_not_sent_again(node: LyingNode, local_chain: LocalChain) -> None:
    local_chain.mine_at_once()
    gapped = TRANSACTIONS[1:]
    assert [one.outcome for one in broadcast(node, *gapped)] == [Outcome.NONCE_TOO_HIGH] * 2
    assert node.raw == gapped


def test_openzeppelin_843_a_future_nonce_without_its_predecessor_is_refused(
    node: LyingNode, local_chain: LocalChain
) -> None:
    """OpenZeppelin 843: the sequencer holds a future nonce for a second and refuses it."""
    node.lie(SEND, lies.refuse_future_nonces(0))
    gapped = broadcast(node, *TRANSACTIONS[1:], one_at_a_time=True)
    assert [one.outcome for one in gapped] == [Outcome.NONCE_TOO_HIGH] * 2
    assert broadcast(node, one_at_a_time=True) == [ACCEPTED] * 3
    assert local_chain.waiting() == HASHES


def test_openzeppelin_843_a_future_nonce_is_accepted_with_its_predecessor(
    node: LyingNode, local_chain: LocalChain
) -> None:
    """OpenZeppelin 843."""
    node.lie(SEND, lies.refuse_future_nonces(60))
    later = threading.Thread(target=ask, args=[node, (SEND, [f"0x{TRANSACTIONS[1].hex()}"])])
    later.start()
    wait_until(lambda: node.raw)
    assert local_chain.waiting() == []
    assert broadcast(node, TRANSACTIONS[0]) == [ACCEPTED]
    later.join()
    assert local_chain.waiting() == HASHES[:2]


def test_errors_are_translated_into_the_words_of_another_client(node: LyingNode) -> None:
    broadcast(node)
    node.lie(SEND, lies.translate({"known transaction": "AlreadyKnown", "underpriced": "ReplacementNotAllowed"}))
    dearer = signed(nonce=0, maxFeePerGas=10 * GWEI + 1)
    assert broadcast(node, TRANSACTIONS[0], dearer) == [
        Broadcast(Outcome.KNOWN, "AlreadyKnown"),
        Broadcast(Outcome.REPLACEMENT_UNDERPRICED, "ReplacementNotAllowed"),
    ]


def test_a_node_that_lags_answers_from_an_older_state(node: LyingNode, local_chain: LocalChain) -> None:
    local_chain.mine()
    local_chain.send_raw(TRANSACTIONS[0])
    local_chain.mine()
    calls: list[tuple[str, list[Any]]] = [
        ("eth_blockNumber", []),
        ("eth_getTransactionCount", [ADDRESS, "latest"]),
        ("eth_getTransactionReceipt", [HASHES[0]]),
        ("eth_getTransactionByHash", [HASHES[0]]),
        ("eth_getBlockByNumber", ["latest", False]),
        ("eth_getBlockByNumber", ["0x2", False]),
    ]
    node.lie_once("eth_blockNumber", lies.lag(1))
    number, count, receipt, transaction, block, newer = (answer["result"] for answer in ask(node, *calls))
    assert (number, count, receipt, transaction, block["number"], newer) == ("0x1", "0x0", None, None, "0x1", None)
    number, count, receipt, transaction, block, newer = (answer["result"] for answer in ask(node, *calls))
    assert (number, count, receipt["blockNumber"], block["number"]) == ("0x2", "0x1", "0x2", "0x2")


@pytest.mark.parametrize("field", ["blockHash", "transactionHash"])
def test_receipts_are_changed(node: LyingNode, local_chain: LocalChain, field: str) -> None:
    local_chain.send_raw(TRANSACTIONS[0])
    local_chain.mine()
    truth = local_chain.receipt(HASHES[0])
    node.lie("eth_getTransactionReceipt", lies.change_receipts(**{field: "0x" + "ee" * 32}))
    assert ask(node, ("eth_getTransactionReceipt", [HASHES[0]]))["result"] == truth | {field: "0x" + "ee" * 32}


def test_answers_of_a_batch_are_shortened_and_reordered(node: LyingNode) -> None:
    calls: list[tuple[str, list[Any]]] = [("eth_chainId", []), ("eth_blockNumber", []), ("eth_gasPrice", [])]
    node.lie_once("eth_chainId", lies.shorten, lies.reorder)
    assert [answer["id"] for answer in ask(node, *calls)] == [0, 1]
    assert [answer["id"] for answer in ask(node, *calls)] == [2, 1, 0]


def test_a_seed_draws_the_same_lies_in_each_run(node: LyingNode) -> None:
    told = []
    for _ in range(2):
        node.told.clear()
        node.lie_by_seed(7, lies.SEEDED, share=0.5)
        for _ in range(20):
            broadcast(node, TRANSACTIONS[0])
        told.append(list(node.told))
    assert told[0][:5] == told[1][:5] != []


def test_a_node_that_is_down_has_a_proxy_that_is_down() -> None:
    with faults.refusing() as url, lying_node(url) as node, pytest.raises((urllib.error.URLError, ConnectionError)):
        ask(node, ("eth_chainId", []))


def test_no_log_line_and_no_outcome_has_a_secret_of_the_url(node: LyingNode, caplog: pytest.LogCaptureFixture) -> None:
    found = []
    for lie in lies.SEEDED:
        node.lie_once(SEND, lie)
        found += broadcast(node)
    assert [one for one in found if SECRET in one.error] == []
    assert SECRET not in caplog.text
