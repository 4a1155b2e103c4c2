"""Requests made in the thread that wants the answer, over real sockets."""

import gzip
import multiprocessing
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from typing import Any

import pytest

from relayer_service.background import pools
from relayer_service.net import node_http, outgoing
from relayer_service.net.bounded import AnswerTooLarge
from tests.chain import faults
from tests.chain.faults import Behaviour, Handler, drip, node
from tests.concurrency import PATIENCE_SECONDS
from tests.notifications.receivers import Receiver
from tests.notifications.test_tls import refused_tls

__all__ = ["refused_tls"]

MAX_BYTES = 100_000
SHORT_SECONDS = 0.5
HEAD = b"HTTP/1.1 200 OK\r\n"


def post(url: str, body: bytes = b"{}", *, seconds: float = PATIENCE_SECONDS) -> outgoing.Answer:
    return node_http.post(url, body, deadline=time.monotonic() + seconds, max_bytes=MAX_BYTES)


def raw(*parts: bytes, close: bool = True) -> Behaviour:
    """Send bytes as they are."""

    def behave(handler: Handler, asked: Any) -> None:
        handler.close_connection = close
        for part in parts:
            handler.connection.sendall(part)

    return behave


OK = raw(HEAD + b"Content-Length: 2\r\n\r\n{}", close=False)


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have no connection that an earlier test has left."""
    connections = node_http._IdleConnections()
    monkeypatch.setattr(node_http, "_idle", connections)
    yield
    connections._drop_old(0)


@pytest.mark.parametrize(
    ("url", "target", "head"),
    [
        ("http://node.example", (False, "node.example", 80), ["POST / HTTP/1.1", "Host: node.example"]),
        (
            "https://Node.Example.:8545/a%2Fb?key=c%20d#e",
            (True, "node.example.", 8545),
            ["POST /a%2Fb?key=c%20d HTTP/1.1", "Host: node.example:8545"],
        ),
        ("https://[::1]:443/", (True, "::1", 443), ["POST / HTTP/1.1", "Host: [::1]"]),
        ("http://bücher.example/é", (False, "xn--bcher-kva.example", 80), ["POST /%C3%A9 HTTP/1.1"]),
        ("http://user:pass%20word@a/", (False, "a", 80), ["Host: a", "Authorization: Basic dXNlcjpwYXNzIHdvcmQ="]),
        ("http://key@a/", (False, "a", 80), ["Authorization: Basic a2V5Og=="]),
    ],
)
def test_a_url_becomes_a_target_and_a_head(url: str, target: tuple[bool, str, int], head: list[str]) -> None:
    found = node_http.split(url)
    lines = found.head.decode().split("\r\n")
    assert (found.tls, found.host, found.port) == target
    assert [line for line in lines if line in head] == head
    assert ("Authorization: " in found.head.decode()) == ("@" in url)
    assert repr(found) == f"Target(tls={target[0]}, host='{target[1]}', port={target[2]})"


@pytest.mark.parametrize("url", ["", "/path", "ftp://a/", "http:///path", "http://a:0/", "http://a:99999/"])
def test_a_url_that_leads_nowhere_is_refused(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words are those of a library
        node_http.split(url)


@pytest.mark.parametrize(
    "behaviour",
    [
        drip(b"x"),
        drip(b"x", at_once=HEAD + b"X-Drip: "),
        drip(b" ", at_once=HEAD + b"Content-Length: 50000\r\n\r\n"),
        drip(b"1\r\n \r\n", at_once=HEAD + b"Transfer-Encoding: chunked\r\n\r\n"),
        drip(b"X-Drip: 1\r\n", at_once=HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"),
        drip(b"HTTP/1.1 100 Continue\r\n\r\n"),
        faults.hang,
    ],
)
def test_a_server_that_never_comes_to_an_end_is_left_at_the_deadline(behaviour: Behaviour) -> None:
    with node(behaviour) as server, pytest.raises(TimeoutError):
        post(server.url, seconds=SHORT_SECONDS)


@pytest.mark.parametrize(("scheme", "size"), [("http", 50_000_000), ("https", 2)])
def test_a_server_that_never_reads_or_agrees_on_tls_is_left_at_the_deadline(scheme: str, size: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held, pytest.raises(TimeoutError):
        post(f"{scheme}://127.0.0.1:{held.getsockname()[1]}/", bytes(size), seconds=SHORT_SECONDS)


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"Content-Length: 7\r\n\r\n[1,2,3]",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\n[1,\r\n4\r\n2,3]\r\n0\r\nX-Trailer: 1\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n[1,2,3]",
        b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Content-Length: 7\r\n\r\n[1,2,3]",
        HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"[1,2,3]", mtime=0),
    ],
)
def test_every_form_of_an_answer_is_read(answer: bytes) -> None:
    with node(raw(answer)) as server:
        found = post(server.url)
    assert (found.status, found.body) == (200, b"[1,2,3]")


ZEROS = bytes(MAX_BYTES + 1)


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ([HEAD, b"Content-Length: 999999999999999\r\n\r\n", ZEROS], AnswerTooLarge),
        ([HEAD, b"\r\n", ZEROS], AnswerTooLarge),
        ([HEAD, b"Transfer-Encoding: chunked\r\n\r\nffffffffffff\r\n", ZEROS], AnswerTooLarge),
        ([HEAD, b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", ZEROS], AnswerTooLarge),
        ([HEAD, *[b"X-Header: " + b"a" * 30_000 + b"\r\n"] * 4], AnswerTooLarge),
        ([HEAD, b"Content-Encoding: gzip\r\n\r\n", gzip.compress(ZEROS, mtime=0)], AnswerTooLarge),
        ([b"SSH-2.0-OpenSSH\r\n"], HTTPException),
        ([HEAD, b"Content-Encoding: gzip\r\n\r\n[1]"], HTTPException),
        ([HEAD, b"Content-Length: 8\r\n\r\n[1,2,3]"], IncompleteRead),
        ([HEAD, b"Transfer-Encoding: chunked\r\n\r\n8\r\n[1,2,3]"], IncompleteRead),
    ],
)
def test_an_answer_that_is_too_large_or_broken_is_an_error(parts: list[bytes], error: type[Exception]) -> None:
    with node(raw(*parts)) as server, pytest.raises(error):
        post(server.url)


def test_a_server_may_answer_before_it_has_read_all() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(post, f"http://127.0.0.1:{held.getsockname()[1]}/", bytes(50_000_000))
        with held.accept()[0] as connection:
            connection.recv(1)
            connection.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
        assert waiting.result().status == 413


def test_a_request_on_a_new_connection_is_not_sent_again() -> None:
    with node(faults.hang_up) as server:
        with pytest.raises(node_http.Unanswered):
            post(server.url)
        assert len(server.requests) == 1


def test_a_request_is_not_sent_again_after_a_part_of_an_answer() -> None:
    def break_off(handler: Handler, asked: Any) -> None:
        handler.connection.sendall(HEAD + b"Content-Length: 50000\r\n\r\n" + bytes(20_000))
        faults.reset(handler, asked)

    with node(OK) as server:
        post(server.url)
        server.behaviour = break_off
        with pytest.raises(ConnectionError):
            post(server.url)
        assert len(server.requests) == 2


def test_a_connection_with_unsolicited_data_is_not_used_again() -> None:
    unsolicited, sent = threading.Event(), threading.Event()

    def answer_and_add(handler: Handler, asked: Any) -> None:
        OK(handler, asked)
        unsolicited.wait()
        OK(handler, asked)
        sent.set()

    with node(answer_and_add) as server:
        post(server.url)
        unsolicited.set()
        sent.wait()
        post(server.url)
        assert server.connections == 2


def test_a_connection_that_was_closed_or_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = threading.Event()

    def answer_and_close(handler: Handler, asked: Any) -> None:
        OK(handler, asked)
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)
        closed.set()

    with node(answer_and_close) as server:
        post(server.url)
        closed.wait()
        assert node_http._idle.take(node_http.split(server.url)) is None
        # The server asks for it.
        server.behaviour = raw(HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}", close=False)
        post(server.url)
        server.behaviour = OK
        post(server.url)
        assert server.connections == 3
        monkeypatch.setattr(outgoing, "KEEP_ALIVE_SECONDS", -1)
        for _ in range(2):
            post(server.url)
        assert server.connections == 4


def test_a_connection_over_tls_is_verified_and_kept(
    refused_tls: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        post(refused_tls.url)
    trusting = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
    monkeypatch.setattr(node_http, "_tls", lambda: trusting)
    assert [post(refused_tls.url).status for _ in range(3)] == [200] * 3
    # One was refused.
    assert refused_tls.connections == 2


def test_threads_share_idle_connections_up_to_a_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "NODE_THREADS", 2)
    with node(OK) as first, node(OK) as second, ThreadPoolExecutor(1) as pool:
        for server in (first, second, first):
            pool.submit(post, server.url).result()
            post(server.url)
        assert (first.connections, second.connections) == (1, 1)
        monkeypatch.setattr(pools, "NODE_THREADS", 1)
        for server in (first, second, first):
            post(server.url)
        assert (first.connections, second.connections) == (2, 2)


def test_a_forked_process_uses_no_connection_of_its_parent() -> None:
    with node(OK) as server:
        post(server.url)
        child = multiprocessing.get_context("fork").Process(target=post, args=[server.url])
        child.start()
        child.join()
        post(server.url)
        assert (child.exitcode, server.connections, len(server.requests)) == (0, 2, 3)


def test_the_next_address_is_tried_after_one_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with node(OK) as server, faults.refusing() as nobody:
        ports = [node_http.split(nobody).port, server.server_port]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)
        assert post("http://node.example/").body == b"{}"
