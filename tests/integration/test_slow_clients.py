"""Clients that send or read slowly, or not at all: others are served meanwhile, and the slow are closed in the end."""

from __future__ import annotations

import json
import select
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.api import WireApi
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.contract import bodies, raw
from tests.relayers.factories import relayer, signer

# Few threads, and less patience than the defaults have.
BODY_TIMEOUT = "relayer_service.server.request_bodies.TIMEOUT_SECONDS={}"
CLIENT_TIMEOUT = "relayer_service.processes.CLIENT_TIMEOUT_SECONDS=8"
SETTINGS = {"WEB_THREADS": "4", "TEST_CONSTANTS": f"{CLIENT_TIMEOUT} {BODY_TIMEOUT.format(8)}"}
HALF_HEAD = b"GET /api/v1/signers HTTP/1.1\r\nHost: 127.0.0.1\r\n"
JSON_TYPE = b"Content-Type: application/json\r\n"

pytestmark = [pytest.mark.long, pytest.mark.one_engine]


@pytest.fixture(scope="module")
def port(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    log = tmp_path_factory.mktemp("slow-clients") / "log"
    with django_db_blocker.unblock(), processes.web(log, RATE_LIMIT_LIST_RELAYERS="", **SETTINGS) as port:
        yield port


@pytest.fixture
def others(port: int, transactional_db: None, token: str) -> WireApi:
    """A client that sends and reads at once."""
    return WireApi(token, port)


@pytest.fixture(scope="module")
def patient_port(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    log = tmp_path_factory.mktemp("large-bodies") / "log"
    with django_db_blocker.unblock(), processes.web(log, TEST_CONSTANTS=BODY_TIMEOUT.format(3600)) as port:
        yield port


@pytest.fixture
def patient(patient_port: int, transactional_db: None) -> WireApi:
    """A client without a token, of a server on which no body is late."""
    return WireApi("", patient_port)


@pytest.fixture
def connections() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect(connections: ExitStack, port: int, data: bytes, *, receive_bytes: int = 0) -> socket.socket:
    connection = connections.enter_context(socket.socket())
    connection.settimeout(PATIENCE_SECONDS)
    if receive_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.connect(("127.0.0.1", port))
    connection.sendall(data)
    return connection


def are_served(others: WireApi) -> bool:
    return [others.get("/api/v1/relayers").status for _ in range(20)] == [200] * 20


def open_connections(port: int) -> int:
    """Return the connections that the server has, as the kernel lists them."""
    local, established = f":{port:04X}", "01"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(local) and row[3] == established for row in rows)


@pytest.mark.parametrize("with_token", [False, True])
def test_half_heads_hold_up_nobody_and_are_closed(
    others: WireApi, connections: ExitStack, *, with_token: bool
) -> None:
    head = HALF_HEAD + (raw.bearer(others.token) if with_token else b"")
    slow = [connect(connections, others.port, head) for _ in range(1000)]
    assert are_served(others)
    assert {connection.recv(1) for connection in slow} == {b""}


def test_half_bodies_hold_up_nobody_and_are_bad_requests(others: WireApi, connections: ExitStack) -> None:
    headers = raw.bearer(others.token) + JSON_TYPE + b"Content-Length: 1000\r\n"
    slow = [connect(connections, others.port, raw.request(b"POST", b"/api/v1/signers", headers)) for _ in range(500)]
    assert are_served(others)
    for connection in slow:
        response = HTTPResponse(connection)
        response.begin()
        assert (response.status, json.load(response)) == (400, bodies.bad_request("the body ended early"))


@pytest.mark.parametrize("head", [b"Content-Length: 1000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n186A0\r\n"])
def test_large_half_bodies_hold_up_no_large_bodies(patient: WireApi, connections: ExitStack, head: bytes) -> None:
    half = raw.request(b"POST", b"/api/v1/signers", JSON_TYPE).removesuffix(b"\r\n") + head + b" " * 70_000
    slow = [connect(connections, patient.port, half) for _ in range(200)]
    answer = patient.post("/api/v1/signers", raw=b" " * 1_000_000)
    assert (answer.status, answer.body) == (401, bodies.failure("Unauthorized"))
    assert select.select(slow, [], [], 0)[0] == []


def test_of_large_half_bodies_the_oldest_are_given_up(patient: WireApi, connections: ExitStack) -> None:
    """All that come together may take the memory of 64 bodies of the largest size."""
    half = raw.request(b"POST", b"/api/v1/signers", JSON_TYPE + b"Content-Length: 1000000\r\n") + b" " * 999_000
    slow = [connect(connections, patient.port, half) for _ in range(80)]
    answer = patient.post("/api/v1/signers", raw=b" " * 1_000_000)
    assert (answer.status, answer.body) == (401, bodies.failure("Unauthorized"))
    wait_until(lambda: len(select.select(slow, [], [], 0)[0]) >= 12)
    given_up = select.select(slow, [], [], 0)[0]
    assert (slow[0] in given_up, slow[-1] in given_up) == (True, False)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux closes what nobody reads")
def test_answers_that_nobody_reads_hold_up_nobody_and_are_closed(others: WireApi, connections: ExitStack) -> None:
    key = signer()
    for number in range(1000):
        relayer(identifier=f"relayer-{number}", name="n" * 200, signer=key)
    ask = raw.request(b"GET", b"/api/v1/relayers?per_page=1000", raw.bearer(others.token))
    for _ in range(200):
        connect(connections, others.port, ask, receive_bytes=2048)
    assert are_served(others)
    wait_until(lambda: open_connections(others.port) == 0)
    assert are_served(others)
