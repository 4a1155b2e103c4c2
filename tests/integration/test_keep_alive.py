"""Connections that stay open: one thread serves many of them, whatever each does."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import Any

import pytest

from tests import processes
from tests.concurrency import PATIENCE_SECONDS

ASK = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
OK = (200, b'{"status": "ok"}')
A_WHILE = 0.1

pytestmark = [pytest.mark.long, pytest.mark.one_engine]


@pytest.fixture(scope="module")
def one_thread(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    """The web server with a single thread for requests."""
    log = tmp_path_factory.mktemp("one-thread") / "log"
    with django_db_blocker.unblock(), processes.web(log, WEB_THREADS="1") as port:
        yield port


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        yield connection


def answer(connection: socket.socket) -> tuple[int, bytes]:
    response = HTTPResponse(connection)
    response.begin()
    return response.status, response.read()


def ask(connection: socket.socket) -> tuple[int, bytes]:
    connection.sendall(ASK)
    return answer(connection)


@pytest.mark.usefixtures("db")
def test_a_peer_that_asks_at_once_or_later_is_answered(one_thread: int) -> None:
    with connected(one_thread) as connection:
        assert [ask(connection) for _ in range(50)] == [OK] * 50
        time.sleep(A_WHILE)
        assert ask(connection) == OK


@pytest.mark.usefixtures("db")
def test_a_peer_that_says_nothing_does_not_hold_the_only_thread(one_thread: int) -> None:
    with connected(one_thread) as silent, connected(one_thread) as other:
        assert ask(silent) == OK
        assert [ask(other) for _ in range(20)] == [OK] * 20
        assert ask(silent) == OK


@pytest.mark.usefixtures("db")
def test_a_peer_that_never_pauses_does_not_keep_others_out(one_thread: int) -> None:
    with connected(one_thread) as busy, connected(one_thread) as other:
        for _ in range(20):
            busy.sendall(ASK)
            assert ask(other) == OK
            assert answer(busy) == OK


@pytest.mark.usefixtures("db")
def test_requests_that_come_together_are_answered_in_turn(one_thread: int) -> None:
    with connected(one_thread) as connection:
        connection.sendall(ASK * 3)
        text = b""
        while text.count(b'{"status": "ok"}') < 3:
            part = connection.recv(65536)
            assert part, text
            text += part
        assert text.count(b"HTTP/1.1 200 OK") == 3


@pytest.mark.usefixtures("db")
def test_a_peer_that_hangs_up_leaves_the_thread_free(one_thread: int) -> None:
    for _ in range(5):
        with connected(one_thread) as connection:
            assert ask(connection) == OK
    with connected(one_thread) as connection:
        assert ask(connection) == OK
