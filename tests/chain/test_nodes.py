"""Calls to a relayer's nodes: the choice by weight, and the answer of a good one whatever the others do."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations_with_replacement, count
from typing import Any

import pytest

from chain.errors import NodesUnreachable
from chain.nodes import attempts, breakers, failover
from chain.nodes.answers import ChainError, Fault
from chain.nodes.attempts import Call
from chain.nodes.failover import NodeStatus, in_order
from relayer_service.observability.logs import RepeatedWarnings
from tests.chain import faults
from tests.chain.faults import SECRET, answering, by_method, error, good, node
from tests.relayers.factories import ADDRESS

CHAIN = 31337
BALANCE = Call("eth_getBalance", [ADDRESS, "0x0"])
TEN_THOUSAND = "0x21e19e0c9bab2400000"
FAULTS = [*faults.FAULTS, "refuse"]
A, B, C = "https://a.example.com", "https://b.example.com", "https://c.example.com"

numbers = count()

pytestmark = pytest.mark.usefixtures("quick_nodes")


def unused(url: str) -> str:
    """Return a URL of the same node that has not been asked yet, and so is not paused."""
    return f"{url}{'&' if '?' in url else '/?'}n={next(numbers)}"


def ask_last(good_url: str, *bad_urls: str) -> tuple[list[Any], float]:
    """Call with a good node that comes last, as it is paused; return its answers and the seconds that it took."""
    last = unused(good_url)
    breakers.pause(last, 60)
    started = time.monotonic()
    answers = failover.call([(last, 100), *((unused(url), 100) for url in bad_urls)], [BALANCE], CHAIN)
    return answers, time.monotonic() - started


def test_a_good_node_answers_after_each_fault_and_each_pair_of_faults(hardhat: str, faulty: dict[str, str]) -> None:
    given = [[name] for name in FAULTS] + [list(pair) for pair in combinations_with_replacement(FAULTS, 2)]
    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(lambda names: ask_last(hardhat, *(faulty[name] for name in names)), given))
    assert [names for names, (answers, _) in zip(given, results, strict=True) if answers != [TEN_THOUSAND]] == []
    assert max(seconds for _, seconds in results) < attempts.DEADLINE_SECONDS


def test_all_nodes_that_fail_are_asked_before_it_is_given_up(faulty: dict[str, str]) -> None:
    given = [(faulty[name], 50) for name in ("500", "refuse", "garbage", "hang up")]
    with pytest.raises(NodesUnreachable) as caught:
        failover.call(given, [BALANCE], CHAIN)
    assert caught.value.reasons == (
        "connection failed; returned HTTP 500; returned an invalid response; the connection was interrupted"
    )


def test_a_call_ends_at_the_deadline_even_if_all_nodes_hang(
    faulty: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "DEADLINE_SECONDS", 1)
    given = [(unused(faulty[name]), 50) for name in ("hang", "slow headers", "slow body") for _ in range(20)]
    started = time.monotonic()
    with pytest.raises(NodesUnreachable, match="did not respond in time"):
        failover.call(given, [BALANCE], CHAIN)
    # Each has a second: one after the other they would take a minute.
    assert time.monotonic() - started < 30


def test_nodes_that_hang_leave_time_for_one_that_answers(
    hardhat: str, faulty: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One attempt may take as long as the whole call.
    monkeypatch.setattr(attempts, "ATTEMPT_SECONDS", 9)
    monkeypatch.setattr(attempts, "DEADLINE_SECONDS", 9)
    assert ask_last(hardhat, faulty["hang"], faulty["hang"])[0] == [TEN_THOUSAND]


def test_without_a_node_to_ask_the_call_says_so() -> None:
    with pytest.raises(NodesUnreachable, match="no RPC URL is configured"):
        failover.call([(A, 0)], [BALANCE], CHAIN)


def refuse_zero(found: list[Any]) -> None:
    if found == ["0x0"]:
        raise Fault("it is behind")


def test_a_node_that_fails_the_check_is_paused_and_the_next_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(breakers, "FAILURES_TO_PAUSE", 1)
    with node(answering({"result": "0x0"})) as behind, node(answering({"result": "0x1"})) as other:
        given = [(behind.url, 100), (other.url, 100)]
        # So that it comes last.
        breakers.pause(other.url, 60)
        assert failover.call(given, [BALANCE], None, refuse_zero) == ["0x1"]
        assert (len(behind.requests), len(other.requests)) == (1, 1)
        assert breakers.paused([behind.url]) == {behind.url}


def test_an_error_of_the_chain_is_the_answer_and_pauses_nobody(hardhat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breakers, "FAILURES_TO_PAUSE", 1)
    refused = answering(error(3, "execution reverted", data="0x"))
    with node(refused) as one, node(good, hardhat) as other:
        breakers.pause(other.url, 60)
        for _ in range(3):
            answers = failover.call([(one.url, 100), (other.url, 100)], [BALANCE], None)
            assert answers == [ChainError(3, "execution reverted", "0x")]
        assert other.requests == []
        assert breakers.paused([one.url]) == set()


@pytest.mark.parametrize("name", ["429", "wrong chain"])
def test_a_rate_limit_and_another_chain_pause_a_node_at_once(faulty: dict[str, str], name: str) -> None:
    url = unused(faulty[name])
    with pytest.raises(NodesUnreachable):
        failover.call([(url, 100)], [BALANCE], CHAIN)
    assert breakers.paused([url], CHAIN) == {url}
    # A node of another chain only for this one.
    assert breakers.paused([url], 5) == ({url} if name == "429" else set())


def test_all_calls_of_one_go_to_the_same_node(hardhat: str) -> None:
    with node(good, hardhat) as one, node(good, hardhat) as other:
        failover.call([(one.url, 50), (other.url, 50)], [BALANCE] * 10, CHAIN)
        assert sorted([len(one.requests), len(other.requests)]) == [0, 1]


def test_more_answers_come_from_the_next_nodes(hardhat: str, faulty: dict[str, str]) -> None:
    given = [(unused(hardhat), 100), (faulty["500"], 100), (unused(hardhat), 100)]
    assert list(failover.answers(given, [BALANCE], CHAIN)) == [[TEN_THOUSAND], [TEN_THOUSAND]]


def test_nodes_are_chosen_in_proportion_to_their_weights() -> None:
    chance = random.Random(20260101).random
    orders = [in_order([(A, 70), (B, 20), (C, 10), (A, 1)], chance) for _ in range(10_000)]
    first = Counter(order[0] for order in orders)
    assert abs(first[A] - 7000) < 300
    assert abs(first[C] - 1000) < 300
    after_a = Counter(order[1] for order in orders if order[0] == A)
    assert abs(after_a[B] / after_a.total() - 2 / 3) < 0.03


def test_a_duplicate_url_is_called_once_and_paused_nodes_last() -> None:
    assert in_order([(A, 1), (A, 99)]) == [A]
    breakers.pause(A, 60)
    assert {tuple(in_order([(A, 100), (B, 1)])) for _ in range(100)} == {(B, A)}
    breakers.pause(B, 60)
    assert sorted(in_order([(A, 1), (B, 1)])) == [A, B]


def test_the_order_of_one_node_needs_no_shared_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(breakers, "cache")
    assert in_order([(A, 1), (B, 0)]) == [A]


def test_faults_are_logged_without_what_may_be_a_key(
    faulty: dict[str, str], hardhat: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in FAULTS:
        ask_last(hardhat, faulty[name])
    lines = [record for record in caplog.records if record.name == "chain.nodes.failover"]
    assert len(lines) == len(FAULTS)
    assert not [record for record in caplog.records if SECRET in str(record.__dict__)]
    port = faulty["500"].rpartition(":")[2].partition("/")[0]
    (line,) = [record for record in lines if record.getMessage().endswith("failed: returned HTTP 500")]
    assert line.fields == {"node": f"http://127.0.0.1:{port}/***"}  # type: ignore[attr-defined]


def test_a_failing_node_is_logged_once_a_minute_for_each_kind_of_failure(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1_000):
        failover.note(A, Fault("returned HTTP 500"), CHAIN)
        failover.note(A, Fault(f"is {number} blocks behind", is_client_error=True), CHAIN)
    for text in ("returned HTTP 502", "failed with -32000", "failed with -32005"):
        failover.note(A, Fault(text), CHAIN)
    failover.note(B, Fault("returned HTTP 500"), CHAIN)
    monkeypatch.setattr(RepeatedWarnings, "SECONDS", 0)
    failover.note(A, Fault("returned HTTP 500"), CHAIN)
    assert [record.getMessage().partition(" failed: ")[2] for record in caplog.records] == [
        "returned HTTP 500",
        "is 0 blocks behind",
        "returned HTTP 502",
        "failed with -32000",
        "failed with -32005",
        "returned HTTP 500",
        "returned HTTP 500 (999 more since the last line)",
    ]


def test_when_no_node_answers_the_error_has_no_secret(faulty: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "ATTEMPT_SECONDS", 0.3)
    with pytest.raises(NodesUnreachable) as caught:
        failover.call([(faulty[name], 10) for name in FAULTS], [BALANCE], CHAIN)
    assert SECRET not in repr(caught.value)
    assert "127.0.0.1" not in repr(caught.value)


# Waiting for nodes releases the database connection, which an earlier test may have opened.
@pytest.mark.one_engine
@pytest.mark.django_db
def test_staff_see_the_state_of_each_node(hardhat: str, faulty: dict[str, str]) -> None:
    breakers.pause(faulty["500"], 60)
    with node(by_method(eth_chainId={"result": "0x7a69"}, eth_blockNumber=error(-32601, "no such method"))) as mute:
        given = [(hardhat, 90), (faulty["500"], 10), (faulty["hang"], 0), (mute.url, 5)]
        one, two, three, four = failover.statuses(given, CHAIN)
        mute_port = mute.server_address[1]
    assert one.milliseconds is not None
    assert one.head_block is not None
    assert one == NodeStatus(hardhat, 90, one.milliseconds, one.head_block)
    assert (two.error, two.paused, two.head_block) == ("returned HTTP 500", True, None)
    assert (three.error, three.weight) == ("did not respond in time", 0)
    assert (four.error, four.url) == ("did not report its head block", f"http://127.0.0.1:{mute_port}/***")
    assert SECRET not in repr([one, two, three, four])


def test_what_is_our_own_fault_does_not_pause_a_node() -> None:
    for is_ours, paused in ((True, set()), (False, {A})):
        for _ in range(breakers.FAILURES_TO_PAUSE):
            failover.note(A, Fault("returned HTTP 413", is_client_error=is_ours))
        assert breakers.paused([A]) == paused
