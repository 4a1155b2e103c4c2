"""The proxy that `deploy/nginx` configures, in front of web processes that are only sockets."""

from __future__ import annotations

import http.client
import json
import re
import select
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests import proxy, servers
from tests.concurrency import wait_until
from tests.proxy import Proxy

HEAD = b"POST /api/v1/signers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def proxied(folder: Path, *ports: int) -> Iterator[Proxy]:
    try:
        with proxy.nginx(folder, ports) as running:
            yield running
    except servers.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def webs() -> Iterator[list[socket.socket]]:
    """Two web processes that only listen: a test accepts, reads and answers."""
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        yield [first, second]


@pytest.fixture
def front(tmp_path: Path, webs: list[socket.socket]) -> Iterator[Proxy]:
    with proxied(tmp_path, *(listener.getsockname()[1] for listener in webs)) as running:
        yield running


def ask(front: Proxy, method: str, path: str, body: bytes | None = None) -> tuple[int, str, bytes]:
    status, headers, content = ask_for_headers(front, method, path, body)
    return status, headers["Content-Type"], content


def ask_for_headers(
    front: Proxy, method: str, path: str, body: bytes | None = None, request_id: str = ""
) -> tuple[int, Message, bytes]:
    connection = http.client.HTTPSConnection("localhost", front.https_port, context=front.trusting(), timeout=60)
    with closing(connection):
        connection.request(method, path, body, {"X-Request-ID": request_id} if request_id else {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()


def log_lines(folder: Path) -> list[dict[str, Any]]:
    """Return what the proxy has logged of requests so far."""
    return [json.loads(line) for line in (folder / "log").read_text().splitlines() if line.startswith("{")]


def failure(status: HTTPStatus) -> tuple[int, str, bytes]:
    body: dict[str, Any] = {"data": None, "message": status.phrase, "success": False}
    return status, "application/json", json.dumps(body, separators=(",", ":")).encode()


def test_an_answer_of_the_proxy_has_a_request_id_and_the_envelope(tmp_path: Path) -> None:
    with proxied(tmp_path, servers.free_port(), servers.free_port()) as front:
        identifiers = []
        for path in ("/api/v1/signers", "/admin/"):
            _, made, _ = ask_for_headers(front, "GET", path)
            _, kept, _ = ask_for_headers(front, "GET", path, request_id="claimed")
            _, too_long, _ = ask_for_headers(front, "POST", path, b" " * 1_048_577)
            identifiers += [headers["X-Request-ID"] for headers in (made, kept, too_long)]
            # One that is too long is logged when its connection is closed.
            count = len(identifiers)
            wait_until(lambda count=count: len(log_lines(tmp_path)) == count)  # type: ignore[misc]  # bound now
        assert [line["request_id"] for line in log_lines(tmp_path)] == identifiers
        assert identifiers[1::3] == ["claimed"] * 2
        assert all(re.fullmatch("[0-9a-f]{32}", each) for each in identifiers[::3] + identifiers[2::3])
        for path in ("/api/v1/signers", "/api"):
            assert ask(front, "GET", path) == failure(HTTPStatus.BAD_GATEWAY)
        assert ask_for_headers(front, "GET", "/api")[1]["Error-Code"] == "unavailable"
        assert ask(front, "GET", "/admin/")[:2] == (502, "text/html")
        # Sign-ins from one address are limited; those that are let through find no web process.
        tried = Counter(ask(front, "POST", "/admin/login/", b"username=a")[0] for _ in range(100))
        shown = Counter(ask(front, "GET", "/admin/login/")[0] for _ in range(20))
        assert (set(tried), shown) == ({429, 502}, {502: 20})


@pytest.mark.parametrize(
    ("sent", "passed_on"), [(b"", rb"[0-9a-f]{32}"), (b"X-Request-ID: " + b"1" * 128 + b"\r\n", rb"1{128}")]
)
def test_the_service_gets_the_request_id_of_the_client_or_the_proxy(
    front: Proxy, webs: list[socket.socket], sent: bytes, passed_on: bytes
) -> None:
    with front.connected() as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + sent + b"\r\n")
        with caller(webs) as (connection, request):
            (identifier,) = re.findall(rb"\r\nX-Request-ID: (" + passed_on + rb")\r\n", request)
            connection.sendall(ANSWER.replace(b"\r\n\r\n", b"\r\nX-Request-ID: " + identifier + b"\r\n\r\n"))
            assert client.recv(65536).count(b"X-Request-ID: ") == 1


def test_a_client_with_too_many_requests_at_once_learns_when_to_retry(front: Proxy, webs: list[socket.socket]) -> None:
    with ExitStack() as stack:
        for _ in range(100):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", front.http_port), timeout=60))
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            # In progress: the proxy has passed it on.
            stack.enter_context(caller(webs))
        status, headers, content = ask_for_headers(front, "GET", "/api/v1/signers")
        assert (status, headers["Content-Type"], content) == failure(HTTPStatus.TOO_MANY_REQUESTS)
        assert (headers["Retry-After"], len(headers["X-Request-ID"])) == ("1", 32)
        assert headers["Error-Code"] == "throttled"
        assert ask_for_headers(front, "GET", "/admin/")[1]["Retry-After"] == "1"


def test_some_answers_are_those_of_the_proxy_or_of_the_service_alone(front: Proxy, webs: list[socket.socket]) -> None:
    # A body over the limit.
    assert ask(front, "POST", "/api/v1/signers", b" " * 1_048_577) == failure(HTTPStatus.BAD_REQUEST)
    # A challenge of a certificate authority.
    challenge = front.folder / "webroot/.well-known/acme-challenge/token"
    challenge.parent.mkdir(parents=True)
    challenge.write_text("an answer")
    with closing(http.client.HTTPConnection("127.0.0.1", front.http_port, timeout=60)) as connection:
        connection.request("GET", "/.well-known/acme-challenge/token")
        assert connection.getresponse().read() == b"an answer"
    assert not anybody_calls(webs)
    # A refusal of the service keeps its own Retry-After.
    refusal = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\n{}"
    with front.connected() as client:
        client.sendall(b"GET /api/v1/relayers HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with caller(webs) as (called, _):
            called.sendall(refusal)
            assert re.findall(rb"Retry-After: (\d+)", client.recv(65536)) == [b"7"]


def test_a_web_process_sees_a_request_when_the_whole_of_it_has_come(front: Proxy, webs: list[socket.socket]) -> None:
    with front.connected() as client:
        client.sendall(HEAD + b"ab")
        # Another request goes through meanwhile, so that this one could have.
        with front.connected() as other:
            other.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with caller(webs) as (connection, _):
                connection.sendall(ANSWER)
                assert other.recv(65536).startswith(b"HTTP/1.1 200")
        assert not anybody_calls(webs)
        client.sendall(b"cd")
        with caller(webs) as (connection, request):
            assert request.endswith(b"\r\n\r\nabcd")
            connection.sendall(ANSWER)
            assert client.recv(65536).startswith(b"HTTP/1.1 200")


def test_a_post_that_was_sent_is_never_sent_again(front: Proxy, webs: list[socket.socket]) -> None:
    with front.connected() as client:
        client.sendall(HEAD + b"abcd")
        with caller(webs) as (_, request):
            assert request.startswith(b"POST ")
        assert status_of(client) == 502
    assert not anybody_calls(webs)


def test_a_read_goes_to_the_other_web_process_when_the_first_hangs_up(front: Proxy, webs: list[socket.socket]) -> None:
    with front.connected() as client:
        client.sendall(b"GET /api/v1/signers HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with caller(webs) as (_, first):
            pass
        with caller(webs) as (connection, second):
            assert first == second
            connection.sendall(ANSWER)
            assert status_of(client) == 200


def test_a_burst_is_answered_by_one_web_process_after_both_have_failed(tmp_path: Path) -> None:
    ports = [servers.free_port(), servers.free_port()]
    with proxied(tmp_path, *ports) as front:
        for _ in range(6):
            assert ask(front, "GET", "/health")[0] == 502
        with socket.create_server(("127.0.0.1", ports[0])) as back, ExitStack() as stack:
            clients = [stack.enter_context(front.connected()) for _ in range(8)]
            for client in clients:
                client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            # Each is passed on while the others wait for their answers.
            for connection, _ in [stack.enter_context(caller([back])) for _ in clients]:
                connection.sendall(ANSWER)
            assert [client.recv(12) for client in clients] == [b"HTTP/1.1 200"] * 8


@contextmanager
def caller(webs: list[socket.socket]) -> Iterator[tuple[socket.socket, bytes]]:
    """Accept a connection of the proxy, at whichever web process it comes, and read its request."""
    (called, *_), _, _ = select.select(webs, [], [], 60)
    with called.accept()[0] as connection:
        connection.settimeout(60)
        request = b""
        while not request.endswith(b"\r\n\r\nabcd" if request.startswith(b"POST") else b"\r\n\r\n"):
            request += connection.recv(65536)
        yield connection, request


def anybody_calls(webs: list[socket.socket]) -> bool:
    return select.select(webs, [], [], 0)[0] != []


def status_of(client: ssl.SSLSocket) -> int:
    return int(client.recv(65536).split()[1])
