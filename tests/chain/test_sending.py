"""Broadcasts over real sockets: the order, an outcome for each transaction, which nodes get them, and the breakers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from eth_account import Account
from eth_utils.crypto import keccak

from chain.broadcast import sending, spreading
from chain.broadcast.sending import Broadcast, Outcome, SignedTransaction, send
from chain.nodes import attempts, breakers
from chain.nodes.attempts import Call, attempt
from tests.chain import faults
from tests.chain.faults import SECRET, Behaviour, Handler, NodeServer, error, secret_url
from tests.chain.hardhat import Chain
from tests.chain.send_dialects import NOT_READY, QUOTAS, WRONG_CHAIN
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.relayers.factories import ADDRESS, KEY
from tests.traces import TRACEPARENT, continues

CHAIN = 31337
SEND = "eth_sendRawTransaction"
# Their content does not matter to the fake nodes.
A, B, C = b"\x02first", b"\x02second", b"\x02third"
ACCEPTED = Broadcast(Outcome.ACCEPTED)
TRACEPARENTS = {A: TRACEPARENT, B: TRACEPARENT.replace("4bf9", "5bf9")}
NodeOf = Callable[..., NodeServer]

pytestmark = pytest.mark.usefixtures("quick_nodes", "given_order")


@pytest.fixture
def given_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nodes be called in the order in which they are given."""
    monkeypatch.setattr(sending, "in_order", lambda nodes, **options: [url for url, _ in nodes])


@pytest.fixture
def node() -> Iterator[NodeOf]:
    """Start nodes with a behaviour each, or with an answer to each transaction; others are accepted."""
    with ExitStack() as stack:

        def start(behaviour: Behaviour | None = None, **answers: dict[str, Any]) -> NodeServer:
            named = {"first": A, "second": B, "third": C}
            by_raw = {f"0x{named[name].hex()}": answer for name, answer in answers.items()}
            return stack.enter_context(faults.node(behaviour or faults.each(lambda call: answer_to(call, by_raw))))

        yield start


def answer_to(call: dict[str, Any], by_raw: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if call["method"] == "eth_chainId":
        return {"result": hex(CHAIN)}
    raw = call["params"][0]
    return by_raw.get(raw, {"result": f"0x{keccak(bytes.fromhex(raw[2:])).hex()}"})


def refusing_all(message: str, code: int = -32000, **more: Any) -> dict[str, dict[str, Any]]:
    return dict.fromkeys(("first", "second", "third"), error(code, message, **more))


def broadcast(
    *nodes: NodeServer | str, transactions: tuple[bytes, ...] = (A, B, C), **options: Any
) -> list[Broadcast | None]:
    urls = [one if isinstance(one, str) else one.url for one in nodes]
    signed = [SignedTransaction(raw, TRACEPARENTS.get(raw, "")) for raw in transactions]
    return send([(url, 100) for url in urls], signed, CHAIN, **options)


def outcomes(*nodes: NodeServer | str, **options: Any) -> list[Outcome]:
    return [one.outcome for one in broadcast(*nodes, **options) if one is not None]


def sent_to(node: NodeServer) -> list[list[bytes]]:
    """Return the transactions of each request to a node."""
    requests = [asked if isinstance(asked, list) else [asked] for asked in list(node.requests)]
    found = [[bytes.fromhex(call["params"][0][2:]) for call in calls if call["method"] == SEND] for calls in requests]
    return [transactions for transactions in found if transactions]


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy machine be as slow as it likes."""
    monkeypatch.setattr(attempts, "ATTEMPT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(attempts, "DEADLINE_SECONDS", PATIENCE_SECONDS)


def transfers(chain: Chain, count: int) -> list[bytes]:
    first = int(chain.rpc("eth_getTransactionCount", ADDRESS, "latest"), 16)
    fields = {"to": ADDRESS, "value": 1, "gas": 21_000, "gasPrice": 10**11, "chainId": CHAIN}
    return [
        bytes(Account.sign_transaction(fields | {"nonce": first + number}, KEY).raw_transaction)
        for number in range(count)
    ]


# The order.


@pytest.mark.parametrize("one_at_a_time", [False, True])
@pytest.mark.usefixtures("patience")
def test_a_node_that_refuses_gaps_accepts_all(chain: Chain, one_at_a_time: bool) -> None:
    transactions = transfers(chain, 16)
    assert broadcast(chain.url, transactions=tuple(transactions), one_at_a_time=one_at_a_time) == [ACCEPTED] * 16


@pytest.mark.usefixtures("patience")
def test_a_node_that_refuses_batches_gets_the_transactions_in_order(chain: Chain) -> None:
    transactions = transfers(chain, 8)
    with faults.node(faults.no_batches, chain.url) as node:
        assert broadcast(node, transactions=tuple(transactions)) == [ACCEPTED] * 8
        assert sent_to(node) == [transactions, *([one] for one in transactions)]


def test_a_batch_is_one_request(node: NodeOf) -> None:
    found = node()
    assert broadcast(found) == [ACCEPTED] * 3
    assert found.methods == [["eth_chainId"], [SEND] * 3]
    assert sent_to(found) == [[A, B, C]]


def test_one_at_a_time_each_is_sent_after_the_answer_to_the_last(node: NodeOf) -> None:
    busy = threading.Lock()

    def behave(handler: Handler, asked: Any) -> None:
        # Fails if another request is being answered.
        assert busy.acquire(blocking=False)
        found = {"jsonrpc": "2.0", "id": asked["id"], **answer_to(asked, {})}
        busy.release()
        faults.send(handler, json.dumps(found).encode())

    found = node(behave)
    assert broadcast(found, one_at_a_time=True) == [ACCEPTED] * 3
    assert sent_to(found) == [[A], [B], [C]]


def test_a_refused_batch_is_remembered(node: NodeOf) -> None:
    def behave(handler: Handler, asked: Any) -> None:
        answers = faults.no_batches if isinstance(asked, list) else faults.each(lambda call: answer_to(call, {}))
        answers(handler, asked)

    found = node(behave)
    assert [broadcast(found), broadcast(found)] == [[ACCEPTED] * 3] * 2
    assert sent_to(found) == [[A, B, C], [A], [B], [C], [A], [B], [C]]


def test_a_sequence_ends_at_a_fault_of_the_node_and_not_of_a_transaction(node: NodeOf) -> None:
    low = node(second=error(-32000, "nonce too low"))
    assert outcomes(low, one_at_a_time=True) == [Outcome.ACCEPTED, Outcome.NONCE_TOO_LOW, Outcome.ACCEPTED]
    found = node(second=error(429, "slow down"))
    limited = Broadcast(Outcome.UNKNOWN, "rate limit exceeded")
    assert broadcast(found, one_at_a_time=True) == [ACCEPTED, Broadcast(Outcome.UNKNOWN, "slow down"), limited]
    assert sent_to(found) == [[A], [B]]


# An outcome for each.


@pytest.mark.parametrize(
    "bad", [error(-32005, "rate limit exceeded"), {"result": "0x" + "ee" * 32}, {"error": "nothing known"}, {}]
)
def test_one_bad_answer_leaves_the_others_of_the_batch(node: NodeOf, bad: dict[str, Any]) -> None:
    assert outcomes(node(second=bad)) == [Outcome.ACCEPTED, Outcome.UNKNOWN, Outcome.ACCEPTED]


def test_two_different_answers_to_one_transaction_are_none(node: NodeOf) -> None:
    def behave(handler: Handler, asked: Any) -> None:
        calls = asked if isinstance(asked, list) else [asked]
        found = [{"jsonrpc": "2.0", "id": call["id"], **answer_to(call, {})} for call in calls]
        twice = [*found, {"id": calls[0]["id"], **error(-32000, "nonce too low")}]
        faults.send(handler, json.dumps(twice if isinstance(asked, list) else found[0]).encode())

    assert outcomes(node(behave)) == [Outcome.UNKNOWN, Outcome.ACCEPTED, Outcome.ACCEPTED]


@pytest.mark.parametrize("status", [400, 500])
def test_the_words_count_before_the_status(node: NodeOf, status: int) -> None:
    def answer(call: dict[str, Any]) -> dict[str, Any]:
        return error(-32000, "nonce too low")

    found = node(faults.each(answer, status))
    attempts._trusted.set((found.url, CHAIN), True, 60)
    assert outcomes(found, transactions=(A,)) == [Outcome.NONCE_TOO_LOW]
    assert breakers.paused([found.url]) == set()


def test_without_nodes_the_outcome_is_unknown_and_nothing_to_send_needs_none(node: NodeOf) -> None:
    assert broadcast(transactions=(A,)) == [Broadcast(Outcome.UNKNOWN, "no RPC URL is configured")]
    found = node()
    assert (broadcast(found, transactions=()), found.requests) == ([], [])


# Their traces.


def test_a_request_with_one_transaction_continues_its_trace_and_a_batch_none(node: NodeOf) -> None:
    found = node()
    broadcast(found, transactions=(A, B, C), one_at_a_time=True)
    of_chain_id, first, second, third = found.traceparents
    assert (continues(first, TRACEPARENTS[A]), continues(second, TRACEPARENTS[B])) == (True, True)
    assert (of_chain_id, third) == (None, None)
    broadcast(found, transactions=(A, B))
    assert (sent_to(found)[-1], found.traceparents[-1]) == ([A, B], None)


# The nodes.


def test_the_next_node_gets_the_batch_after_each_fault(
    faulty: dict[str, str], node: NodeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "ATTEMPT_SECONDS", 1)
    for name, url in faulty.items():
        good = node()
        assert broadcast(url, good) == [ACCEPTED] * 3, name
        assert sent_to(good) == [[A, B, C]], name


def test_an_unknown_outcome_is_settled_by_the_second_node_which_gets_the_whole_batch(node: NodeOf) -> None:
    first, second = node(second=error(-32603, "internal error")), node(second=error(-32000, "already known"))
    assert broadcast(first, second) == [ACCEPTED, Broadcast(Outcome.KNOWN, "already known"), ACCEPTED]
    assert (sent_to(first), sent_to(second)) == ([[A, B, C]], [[A, B, C]])


def test_a_third_node_gets_what_is_still_unsettled(node: NodeOf) -> None:
    unclear = {"second": error(-32000, "hm")}
    first, second, third = node(**unclear), node(**unclear), node()
    assert broadcast(first, second, third) == [ACCEPTED] * 3
    assert sent_to(third) == [[B]]


REFUSED = refusing_all("intrinsic gas too low")


def test_what_all_nodes_refuse_is_refused(node: NodeOf) -> None:
    nodes = [node(**REFUSED), node(**refusing_all("exceeds block gas limit")), node(**REFUSED)]
    assert broadcast(*nodes) == [Broadcast(Outcome.REFUSED, "intrinsic gas too low", is_rejected_by_all=True)] * 3
    assert [sent_to(one) for one in nodes] == [[[A, B, C]]] * 3


@pytest.mark.parametrize(
    ("message", "is_rejected"),
    [
        ("something else", True),
        ("tx fee (1.20 ether) exceeds the configured cap (1.00 ether)", True),
        ("intrinsic gas too low", True),
        ("nonce too low", False),
        ("txpool is full", False),
        *((messages[0], False) for messages in (NOT_READY, QUOTAS, WRONG_CHAIN)),
    ],
)
def test_only_words_that_leave_no_hope_are_a_rejection(node: NodeOf, message: str, is_rejected: bool) -> None:
    found = broadcast(node(**refusing_all("hm")), node(**refusing_all(message)), transactions=(A,))
    assert [one and one.is_rejected_by_all for one in found] == [is_rejected]


def test_what_a_node_does_not_answer_is_not_rejected_by_all(faulty: dict[str, str], node: NodeOf) -> None:
    for name in ("500", "garbage", "refuse"):
        found = broadcast(node(**refusing_all("hm")), faulty[name], transactions=(A,))
        assert [one and one.is_rejected_by_all for one in found] == [False], name


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ({}, Outcome.ACCEPTED),
        (refusing_all("nonce too low"), Outcome.NONCE_TOO_LOW),
        (refusing_all("txpool is full"), Outcome.POOL_LIMIT),
        (refusing_all("something else"), Outcome.UNKNOWN),
    ],
)
def test_what_one_node_does_not_refuse_is_not_refused(node: NodeOf, answers: dict[str, Any], outcome: Outcome) -> None:
    assert outcomes(node(**REFUSED), node(**answers)) == [outcome] * 3


def test_a_node_that_does_not_answer_does_not_keep_a_refusal_open(node: NodeOf) -> None:
    down = node(faults.status(502))
    assert outcomes(down, node(**REFUSED)) == [Outcome.REFUSED] * 3
    assert outcomes(node(**REFUSED), down) == [Outcome.REFUSED] * 3


def test_the_fee_cap_of_one_node_does_not_count_for_another(node: NodeOf) -> None:
    capped = refusing_all("tx fee (2 ether) exceeds the configured cap (1 ether)")
    assert outcomes(node(**capped), node()) == [Outcome.ACCEPTED] * 3
    assert outcomes(node(**capped), node(**capped)) == [Outcome.FEE_CAP] * 3


def test_the_chain_id_is_checked_before_the_first_broadcast_and_after_a_fault(node: NodeOf) -> None:
    wrong = node(faults.by_method(eth_chainId={"result": "0x5"}))
    assert broadcast(wrong) == [Broadcast(Outcome.UNKNOWN, "on chain 5 instead of 31337")] * 3
    assert sent_to(wrong) == []
    found = node(third=error(-32000, "invalid sender"))
    for transaction in (A, B, C, A):
        broadcast(found, transactions=(transaction,))
    assert found.methods == [["eth_chainId"], [SEND], [SEND], [SEND], ["eth_chainId"], [SEND]]
    # Reads have the trust that a broadcast established.
    assert attempt(found.url, [Call("eth_chainId")], CHAIN, PATIENCE_SECONDS) == [hex(CHAIN)]
    assert found.methods[-1] == ["eth_chainId"]


def test_a_node_that_hangs_leaves_time_for_the_next(
    faulty: dict[str, str], node: NodeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "ATTEMPT_SECONDS", 2)
    monkeypatch.setattr(attempts, "DEADLINE_SECONDS", 2)
    assert broadcast(faulty["hang"], node()) == [ACCEPTED] * 3


# Copies to a second node.


def test_a_second_node_gets_a_copy_whose_answer_does_not_count(node: NodeOf) -> None:
    first, paused, second, fourth = node(), node(), node(**REFUSED), node()
    breakers.pause(paused.url, 60)
    assert broadcast(first, paused, second, fourth) == [ACCEPTED] * 3
    wait_until(lambda: sent_to(second) == [[A, B, C]])
    assert (sent_to(paused), sent_to(fourth)) == ([], [])


def test_a_chain_without_a_mempool_needs_no_copy(node: NodeOf, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[Any] = []
    monkeypatch.setattr(sending, "spread", lambda *args: copied.append(args))
    assert broadcast(node(), node(), one_at_a_time=True) == [ACCEPTED] * 3
    assert copied == []


def test_a_fault_of_the_second_node_counts_for_its_breaker(node: NodeOf) -> None:
    first, second = node(), node(faults.status(429))
    broadcast(first, second)
    wait_until(lambda: breakers.paused([second.url]))


def test_copies_that_nobody_takes_do_not_pile_up(faulty: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreading, "MAX_WAITING", 0)
    taken: list[Any] = []
    monkeypatch.setattr(spreading, "_copy", lambda *args: taken.append(args))
    spreading.spread([faulty["hang"]], 1, [SignedTransaction(A)], CHAIN)
    monkeypatch.setattr(spreading, "MAX_WAITING", 1)
    spreading.spread([faulty["hang"]], 1, [SignedTransaction(B)], CHAIN)
    wait_until(lambda: taken)
    assert taken == [([faulty["hang"]], 1, [SignedTransaction(B)], CHAIN, None)]


# What may leave.


def closing(*sets: set[bytes]) -> Callable[[], set[bytes]]:
    """Allow other transactions with each call of a node; from the last one on, the same."""
    left = list(sets)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_what_is_no_longer_allowed_goes_to_no_further_node(node: NodeOf) -> None:
    first, second = node(**refusing_all("internal error", -32603)), node()
    found = broadcast(first, second, allowed=closing({A, B, C}, {A, C}))
    assert (sent_to(first), sent_to(second)) == ([[A, B, C]], [[A, C]])
    # The first node may have it.
    assert [one and one.outcome for one in found] == [Outcome.ACCEPTED, Outcome.UNKNOWN, Outcome.ACCEPTED]


def test_what_was_never_allowed_has_no_outcome(node: NodeOf) -> None:
    one = node()
    assert broadcast(one, allowed=closing({B})) == [None, ACCEPTED, None]
    assert broadcast(one, allowed=closing(set())) == [None] * 3
    assert sent_to(one) == [[B]]


def test_one_at_a_time_each_is_asked_for(node: NodeOf) -> None:
    one = node()
    found = broadcast(one, one_at_a_time=True, allowed=closing({A, B, C}, {C}))
    assert (sent_to(one), found) == ([[A], [C]], [ACCEPTED, None, ACCEPTED])


def test_a_copy_is_asked_for_when_it_is_sent(node: NodeOf) -> None:
    first, second = node(), node()
    broadcast(first, second, allowed=closing({A, B, C}, {B}))
    wait_until(lambda: sent_to(second))
    assert sent_to(second) == [[B]]


# The circuit breakers.


@pytest.mark.parametrize(
    "message",
    ["nonce too low", "execution reverted", "internal error"],
)
def test_oz_681_errors_of_transactions_do_not_pause_a_node(node: NodeOf, message: str) -> None:
    """OpenZeppelin 681: -32603 "nonce too low" counted as a failure of the node, until all nodes were paused."""
    found = node(**refusing_all(message, -32603))
    for _ in range(breakers.FAILURES_TO_PAUSE + 1):
        broadcast(found)
    assert breakers.paused([found.url], CHAIN) == set()
    # Nor does it lose the trust in its chain ID.
    assert found.methods.count(["eth_chainId"]) == 1


@pytest.mark.parametrize("name", ["reset", "500", "garbage"])
def test_repeated_faults_pause_a_node(faulty: dict[str, str], name: str) -> None:
    for _ in range(breakers.FAILURES_TO_PAUSE):
        assert breakers.paused([faulty[name]]) == set()
        broadcast(faulty[name])
    assert breakers.paused([faulty[name]]) == {faulty[name]}


def test_a_rate_limit_of_one_transaction_pauses_the_node(node: NodeOf) -> None:
    found = node(third=error(-32005, "slow down"))
    broadcast(found)
    assert breakers.paused([found.url]) == {found.url}


def test_a_node_that_finds_another_sender_is_paused_for_this_chain(node: NodeOf) -> None:
    found = node(**refusing_all("invalid sender"))
    assert broadcast(found) == [Broadcast(Outcome.UNKNOWN, "invalid sender")] * 3
    assert (breakers.paused([found.url], CHAIN), breakers.paused([found.url], 1)) == ({found.url}, set())


def test_no_outcome_and_no_log_line_has_a_secret_of_a_url(
    faulty: dict[str, str], node: NodeOf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(attempts, "ATTEMPT_SECONDS", 1)
    found = [one for url in faulty.values() for one in broadcast(url)]
    found += broadcast(node(**refusing_all(f"Post {secret_url(8545)}: EOF")))
    assert [one for one in found if one is None or SECRET in one.error] == []
    assert SECRET not in caplog.text
