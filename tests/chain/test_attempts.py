"""One attempt at one node, over real sockets: what counts as an answer, and what is a fault."""

from __future__ import annotations

import ipaddress
import json
import logging
import socket
import threading
import time
from typing import Any

import pytest
from pytest_django import Settings

from chain.nodes import attempts
from chain.nodes.answers import ChainError, Fault
from chain.nodes.attempts import Call, attempt
from tests.chain import faults
from tests.chain.faults import SECRET, answering, good, node
from tests.concurrency import PATIENCE_SECONDS
from tests.notifications.receivers import Receiver
from tests.relayers.factories import ADDRESS

CHAIN = 31337
CONTRACT = "0x00000000000000000000000000000000000c0de1"
BALANCE = Call("eth_getBalance", [ADDRESS, "0x0"])
TEN_THOUSAND = "0x21e19e0c9bab2400000"
LATE = "did not respond in time"

pytestmark = pytest.mark.usefixtures("quick_nodes")


def ask(url: str, *calls: Call, chain_id: int | None = CHAIN) -> list[Any]:
    return attempt(url, calls or [BALANCE], chain_id, PATIENCE_SECONDS)


def fault(url: str, *calls: Call, seconds: float = PATIENCE_SECONDS) -> str:
    with pytest.raises(Fault) as caught:
        attempt(url, calls or [BALANCE], CHAIN, seconds)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("refuse", "connection failed"),
        ("reset", "the connection was interrupted"),
        ("hang up", "the connection was interrupted"),
        ("hang", LATE),
        ("500", "returned HTTP 500"),
        ("429", "rate limit exceeded"),
        ("429 in a 200", "rate limit exceeded"),
        ("401", "returned HTTP 401"),
        ("wrong chain", "on chain 5 instead of 31337"),
        ("garbage", "returned an invalid response"),
        ("not HTTP", "did not respond with HTTP"),
        ("wrong id", "returned an invalid response"),
        ("huge", "returned a response that is too large"),
        ("bomb", "returned a response that is too large"),
        ("slow headers", LATE),
        ("slow body", LATE),
        ("behind", "does not have the latest state"),
        ("redirect", "returned HTTP 307"),
    ],
)
def test_each_fault_has_a_message(faulty: dict[str, str], name: str, reason: str) -> None:
    assert fault(faulty[name], seconds=1 if reason == LATE else PATIENCE_SECONDS) == reason


def test_no_log_line_and_no_error_has_a_secret_of_a_url(
    faulty: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    assert set(faulty) == {*faults.FAULTS, "refuse"}
    caplog.set_level(logging.DEBUG)
    for url in faulty.values():
        with pytest.raises(Fault) as caught:
            attempt(url, [BALANCE], CHAIN, 0.2)
        assert SECRET not in repr(caught.value)
        assert caught.value.__cause__ is None
    assert not [record for record in caplog.records if SECRET in str(record.__dict__)]


def test_the_chain_id_is_asked_once_and_again_after_a_while_and_after_a_fault(
    hardhat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node(good, hardhat) as one:
        ask(one.url)
        ask(one.url)
        assert one.methods == [["eth_chainId", "eth_getBalance"], ["eth_getBalance"]]
        # No id is used twice.
        (chain, first), second = one.requests
        assert len({chain["id"], first["id"], second["id"]}) == 3
        assert one.connections == 1
        one.behaviour = faults.status(502)
        assert fault(one.url) == "returned HTTP 502"
        one.behaviour = good
        monkeypatch.setattr(attempts, "TRUST_SECONDS", -1)
        ask(one.url)
        assert one.methods[-1] == ["eth_chainId", "eth_getBalance"]
        one.behaviour = faults.on_chain(5)
        assert fault(one.url) == "on chain 5 instead of 31337"


def test_without_a_chain_id_to_expect_none_is_asked_for(hardhat: str) -> None:
    with node(good, hardhat) as one:
        ask(one.url, chain_id=None)
        assert one.methods == [["eth_getBalance"]]


def test_a_node_that_refuses_batches_gets_single_calls(hardhat: str) -> None:
    with node(faults.no_batches, hardhat) as one:
        assert ask(one.url, BALANCE, Call("eth_chainId")) == [TEN_THOUSAND, "0x7a69"]
        batch, *single = one.methods
        assert batch == ["eth_chainId", "eth_getBalance", "eth_chainId"]
        assert sorted(single) == [["eth_chainId"], ["eth_chainId"], ["eth_getBalance"]]
        # It is not offered a batch again.
        ask(one.url, BALANCE, BALANCE)
        assert one.methods[4:] == [["eth_getBalance"], ["eth_getBalance"]]


def test_a_large_batch_is_split_for_a_node_that_accepts_small_ones(hardhat: str) -> None:
    def behave(handler: faults.Handler, asked: Any) -> None:
        if isinstance(asked, list) and len(asked) > 5:
            error = {"code": -32600, "message": "batch too large"}
            faults.send(handler, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode())
        else:
            good(handler, asked)

    with node(behave, hardhat) as one:
        assert ask(one.url, *[BALANCE] * 18, chain_id=None) == [TEN_THOUSAND] * 18
        assert sorted(map(len, one.methods)) == [2, 4, 4, 4, 4, 18]
        ask(one.url, *[BALANCE] * 4, chain_id=None)
        assert one.methods[6:] == [["eth_getBalance"] * 4]


@pytest.mark.parametrize("fails", [faults.hang, lambda handler, asked: faults.send(handler, b"", 500)])
def test_an_optional_call_that_fails_alone_leaves_the_others(hardhat: str, fails: Any) -> None:
    def behave(handler: faults.Handler, asked: Any) -> None:
        if isinstance(asked, dict) and asked["method"] == "eth_gasPrice":
            fails(handler, asked)
        else:
            faults.no_batches(handler, asked)

    with node(behave, hardhat) as one:
        assert ask(one.url, BALANCE, Call("eth_gasPrice", is_optional=True)) == [
            TEN_THOUSAND,
            ChainError(0, "no answer"),
        ]


def test_optional_calls_without_others_are_waited_for(hardhat: str) -> None:
    optional = Call("eth_getBalance", BALANCE.params, is_optional=True)
    with node(faults.no_batches, hardhat) as one:
        assert ask(one.url, *[optional] * 20, chain_id=None) == [TEN_THOUSAND] * 20


def test_optional_calls_that_all_fail_are_a_fault_of_the_node(hardhat: str) -> None:
    def behave(handler: faults.Handler, asked: Any) -> None:
        if isinstance(asked, list):
            faults.no_batches(handler, asked)
        else:
            faults.send(handler, b"", 503)

    optional = Call("eth_getBalance", BALANCE.params, is_optional=True)
    with node(behave, hardhat) as one, pytest.raises(Fault, match="returned HTTP 503"):
        ask(one.url, optional, optional, chain_id=None)


def test_a_single_call_that_fails_ends_the_others(hardhat: str) -> None:
    def behave(handler: faults.Handler, asked: Any) -> None:
        if isinstance(asked, dict) and asked["method"] == "eth_blockNumber":
            faults.send(handler, b"", 503)
        elif isinstance(asked, dict) and asked["method"] == "eth_getBalance":
            faults.hang(handler, asked)
        else:
            faults.no_batches(handler, asked)

    with node(behave, hardhat) as one:
        assert fault(one.url, BALANCE, Call("eth_blockNumber")) == "returned HTTP 503"


def test_single_calls_are_asked_a_few_at_once(hardhat: str) -> None:
    in_flight: list[int] = []
    together = threading.Barrier(attempts.MAX_REQUESTS_IN_FLIGHT)

    def behave(handler: faults.Handler, asked: Any) -> None:
        if isinstance(asked, dict):
            in_flight.append(1)
            together.wait()
            time.sleep(0.05)
            most.append(len(in_flight))
            together.wait()
            in_flight.pop()
        faults.no_batches(handler, asked)

    most: list[int] = []
    calls = [BALANCE] * (2 * attempts.MAX_REQUESTS_IN_FLIGHT)
    with node(behave, hardhat) as one:
        assert ask(one.url, *calls, chain_id=None) == [TEN_THOUSAND] * len(calls)
    assert set(most) == {attempts.MAX_REQUESTS_IN_FLIGHT}


def test_a_bug_in_reading_an_answer_is_a_fault_of_the_node(
    hardhat: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any) -> None:
        raise KeyError("missing")

    monkeypatch.setattr(attempts, "read_answers", fail)
    assert fault(hardhat) == "returned an unreadable response"
    assert [record.message for record in caplog.records] == ["The response of a node could not be read"]


def test_a_connection_that_the_node_has_closed_meanwhile_is_no_fault(hardhat: str) -> None:
    def answer_and_close(handler: faults.Handler, asked: Any) -> None:
        if len(handler.server.requests) % 2:
            good(handler, asked)
        else:
            # As if the node had hung up just before this request came.
            handler.close_connection = True

    with node(answer_and_close, hardhat) as one:
        assert [ask(one.url) for _ in range(3)] == [[TEN_THOUSAND]] * 3


def test_a_name_that_leads_to_the_metadata_of_a_cloud_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)
    assert fault("http://node.example.com/") == "the address is not allowed"


def test_a_private_address_is_allowed_unless_a_setting_narrows_it(hardhat: str, settings: Settings) -> None:
    assert ask(hardhat) == [TEN_THOUSAND]
    settings.NODE_AND_SIGNER_PRIVATE_NETWORKS = [ipaddress.ip_network("10.0.0.0/8")]
    with node(good, hardhat) as one:
        assert fault(one.url) == "the address is not allowed"
        assert one.methods == []


def test_a_name_that_does_not_resolve_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert fault("http://unknown.example.com/") == "the host name cannot be resolved"


def test_the_proxies_of_the_environment_are_not_used(hardhat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with node(answering({"result": "0x0"})) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_address[1]}")
        assert ask(hardhat) == [TEN_THOUSAND]
        assert proxy.requests == []


def test_a_certificate_that_nobody_vouched_for_is_a_fault(refused_tls: Receiver) -> None:
    assert fault(refused_tls.url) == "invalid TLS certificate"
    assert refused_tls.requests == []


def test_a_node_that_speaks_no_tls_is_a_fault(hardhat: str) -> None:
    assert fault(hardhat.replace("http:", "https:")) == "the TLS handshake failed"
