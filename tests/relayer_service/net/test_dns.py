"""Names are resolved by threads of their own, as a name server may hang."""

import multiprocessing
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from relayer_service.background import pools
from relayer_service.net import dns
from tests.concurrency import PATIENCE_SECONDS, wait_until

FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))]


class NameServer:
    """Answers but for names that begin with `hang`, which it answers at the end."""

    def __init__(self) -> None:
        self.queried: list[str] = []
        self.end = threading.Event()

    def __call__(self, host: str, port: int, **options: Any) -> list[Any]:
        self.queried.append(host)
        if host.startswith("hang"):
            self.end.wait()
        if host.startswith("unknown"):
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return FOUND


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server)
    yield server
    server.end.set()


def test_a_name_server_that_hangs_holds_up_neither_its_caller_nor_other_names(name_server: NameServer) -> None:
    with pytest.raises(TimeoutError):
        dns.resolve("hang.example", 80, 0.1)
    assert dns.resolve("quick.example", 80, PATIENCE_SECONDS) == FOUND
    # One that is unknown is looked up again.
    for _ in range(2):
        with pytest.raises(socket.gaierror):
            dns.resolve("unknown.example", 80, PATIENCE_SECONDS)
    assert name_server.queried[2:] == ["unknown.example"] * 2


def test_threads_that_wait_for_the_same_name_share_one_question(name_server: NameServer) -> None:
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(dns.resolve, "hang-shared.example", 80, PATIENCE_SECONDS) for _ in range(5)]
        wait_until(lambda: name_server.queried)
        name_server.end.set()
        assert [task.result() for task in waiting] == [FOUND] * 5
    assert name_server.queried == ["hang-shared.example"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_an_address_is_not_looked_up(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # No pool has so many threads.
    monkeypatch.setattr(pools, "RESOLVER_THREADS", 0)
    assert dns._Resolver().resolve(address, 80, PATIENCE_SECONDS)[0][4][:2] == (address, 80)


def test_a_forked_process_resolves_by_threads_of_its_own(name_server: NameServer) -> None:
    with pytest.raises(TimeoutError):
        dns.resolve("hang-forked.example", 80, 0.1)
    name_server.end.set()
    child = multiprocessing.get_context("fork").Process(
        target=dns.resolve, args=["hang-forked.example", 80, PATIENCE_SECONDS]
    )
    child.start()
    child.join()
    assert child.exitcode == 0
