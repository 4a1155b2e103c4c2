"""A web process whose threads are busy: what they wait for delays nothing else, and /health needs none of them."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests import processes
from tests.api import WireApi
from tests.chain import faults
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.contract import raw
from tests.contract.rpc_calls import CALL, PATH
from tests.relayers import factories
from tokens.writes import issue

CALLERS = 12
JSON_TYPE = b"Content-Type: application/json\r\n"

pytestmark = [pytest.mark.long, pytest.mark.one_engine, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def manager(request: pytest.FixtureRequest, user: User, tmp_path: Path) -> Iterator[WireApi]:
    """A client of a server that has as many threads as the test says."""
    token = issue(name="tests", user=user, scopes=["manage"])[1]
    with processes.web(tmp_path / "log", WEB_THREADS=str(request.param), EXTENSIONS="lifecycle") as port:
        yield WireApi(token, port)


@pytest.fixture
def connections() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def send(connections: ExitStack, api: WireApi, method: bytes, path: str, body: Any = None) -> socket.socket:
    """Send a request whose answer is read later."""
    connection = connections.enter_context(socket.create_connection(("127.0.0.1", api.port), PATIENCE_SECONDS))
    content = b"" if body is None else json.dumps(body).encode()
    connection.sendall(raw.request(method, path.encode(), raw.bearer(api.token) + JSON_TYPE, content))
    return connection


def status(connection: socket.socket) -> int:
    with HTTPResponse(connection) as response:
        response.begin()
        return response.status


def answered(sent: list[socket.socket]) -> list[socket.socket]:
    return select.select(sent, [], [], 0)[0]


@pytest.mark.parametrize("manager", [1], indirect=True)
def test_health_is_answered_while_every_thread_waits(manager: WireApi, connections: ExitStack) -> None:
    with faults.node(faults.hang) as node:
        factories.relayer(network="hardhat", rpc_urls=[{"url": node.url, "weight": 100}])
        sent = [send(connections, manager, b"POST", PATH, CALL)]
        wait_until(lambda: node.requests)
        health = manager.with_token("").get("/health", headers={"X-Request-ID": "a-probe"})
        assert (health.status, health.body, health.headers["x-request-id"]) == (200, {"status": "ok"}, "a-probe")
        assert "no-store" in health.headers["cache-control"]
        assert answered(sent) == []


@pytest.mark.parametrize("manager", [4], indirect=True)
def test_a_node_that_hangs_leaves_threads_for_the_others(manager: WireApi, connections: ExitStack) -> None:
    with faults.node(faults.hang) as node:
        factories.relayer(network="hardhat", rpc_urls=[{"url": node.url, "weight": 100}])
        balance = "/api/v1/relayers/relayer-1/balance"
        sent = [send(connections, manager, b"GET", balance) for _ in range(CALLERS)]
        sent += [send(connections, manager, b"POST", PATH, CALL) for _ in range(CALLERS)]
        # Three of four threads wait, at most one of them for a balance.
        wait_until(lambda: len(answered(sent)) == 2 * CALLERS - 3)
        assert len(answered(sent[:CALLERS])) >= CALLERS - 1
        assert len(node.requests) == 3
        assert [manager.get("/api/v1/relayers").status for _ in range(20)] == [200] * 20
        refused = answered(sent)
        assert {status(connection) for connection in refused} == {429}
    assert {status(connection) for connection in set(sent) - set(refused)} <= {200, 503}
