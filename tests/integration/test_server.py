"""The web server's processes: how they stop, are replaced and end, while clients go on asking."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import pytest
import redis

from relayer_service.processes import is_running
from tests import processes
from tests.api import WireApi
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.contract import bodies, raw
from tests.servers import PROJECT, free_port, wait_for_port

COMMAND = [sys.executable, "-m", "relayer_service.server"]
DRAIN = "relayer_service.processes.DRAIN_SECONDS={}"

pytestmark = [pytest.mark.long, pytest.mark.one_engine, pytest.mark.django_db(transaction=True)]


@contextmanager
def serving(**settings: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    port = free_port()
    process = processes.start(COMMAND, processes.environment(HOST="127.0.0.1", PORT=str(port), **settings))
    try:
        wait_for_port(port, process=process)
        wait_until(lambda: answers(port, Counter()))
        yield process, port
    finally:
        process.kill()
        process.wait()


def answers(port: int, outcomes: Counter[str], times: int = 1) -> bool:
    """Send requests on one connection while the server keeps it open; return whether it answered."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.connect()
    except OSError:
        outcomes["refused"] += 1
        return False
    try:
        for _ in range(times):
            connection.request("GET", "/health")
            response = connection.getresponse()
            response.read()
            outcomes[str(response.status)] += 1
            if response.will_close:
                break
    except (OSError, HTTPException) as error:
        outcomes[type(error).__name__] += 1
    finally:
        connection.close()
    return bool(outcomes["200"])


class Load:
    """Clients that ask all the time, each so many times on a connection."""

    def __init__(self, port: int, *times_on_a_connection: int) -> None:
        self.port = port
        self.outcomes: Counter[str] = Counter()
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self._ask, args=[times]) for times in times_on_a_connection * 4]

    def _ask(self, times: int) -> None:
        while not self.ended.is_set():
            outcomes: Counter[str] = Counter()
            if not answers(self.port, outcomes, times):
                self.ended.wait(0.05)
            self.outcomes.update(outcomes)

    def __enter__(self) -> Load:
        for thread in self.threads:
            thread.start()
        wait_until(lambda: self.outcomes["200"] > 50)
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        for thread in self.threads:
            thread.join()


def test_a_server_that_is_stopped_answers_all_that_it_has_received() -> None:
    """Those that came before the signal, and one of which only the half has come by then."""
    with serving() as (process, port), Load(port, 50, 1) as load:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
            connection.sendall(raw.request(b"POST", b"/api/v1/signers", b"Content-Length: 2\r\n") + b"{")
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: is_stopping(port))
            connection.sendall(b"}")
            response = HTTPResponse(connection)
            response.begin()
            assert (response.status, json.load(response)) == (401, bodies.failure("Unauthorized"))
        assert process.wait(PATIENCE_SECONDS) == 0
    assert set(load.outcomes) <= {"200", "refused"}


def test_a_server_that_drains_answers_on_new_connections_too() -> None:
    # For half of it, and so for as long as this takes.
    with serving(TEST_CONSTANTS=DRAIN.format(600)) as (process, port):
        process.send_signal(signal.SIGINT)
        wait_until(lambda: is_stopping(port))
        outcomes: Counter[str] = Counter()
        answers(port, outcomes, 2)
        assert outcomes == {"200": 1}


def is_stopping(port: int) -> bool:
    """Return whether the server closes a connection after one answer, or takes none any more."""
    outcomes: Counter[str] = Counter()
    answers(port, outcomes, 2)
    return outcomes["200"] < 2


@pytest.fixture(scope="module")
def pair(django_db_setup: None, django_db_blocker: Any) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A server with two processes, and its port; the last test of it kills it."""
    with django_db_blocker.unblock(), serving(WEB_PROCESSES="2", TEST_CONSTANTS=DRAIN.format(5)) as running:
        yield running


def test_processes_are_replaced_without_a_failed_request(pair: tuple[subprocess.Popen[bytes], int]) -> None:
    process, port = pair
    # On connections that stay open, as a proxy has them. None is idle for as long as a process drains.
    with Load(port, 50) as load:
        old = list(processes.children(process.pid))
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: not any(is_running(pid) for pid in old))
        count = load.outcomes["200"]
        wait_until(lambda: load.outcomes["200"] > count + 50)
    assert set(load.outcomes) == {"200"}
    assert len(old) == 2


def test_a_process_that_crashes_is_replaced_and_the_others_go_on(pair: tuple[subprocess.Popen[bytes], int]) -> None:
    process, port = pair
    old = list(processes.children(process.pid))
    os.kill(old[0], signal.SIGKILL)
    assert [answers(port, Counter()) for _ in range(20)] == [True] * 20
    wait_until(lambda: len(set(processes.children(process.pid)) - set(old)) == 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a process when its parent exits")
def test_processes_end_with_a_server_that_is_killed(pair: tuple[subprocess.Popen[bytes], int]) -> None:
    process, port = pair
    left = list(processes.children(process.pid))
    process.kill()
    process.wait()
    # Well before the time for which a client may hold a connection.
    wait_until(lambda: not any(is_running(pid) for pid in left), seconds=20)
    assert len(left) == 2
    assert not answers(port, Counter())


def test_a_server_that_is_stopped_while_it_starts_ends_at_once() -> None:
    port = free_port()
    process = processes.start(COMMAND, processes.environment(HOST="127.0.0.1", PORT=str(port)))
    wait_until(lambda: processes.children(process.pid))
    process.send_signal(signal.SIGTERM)
    # Long before it would be killed.
    assert process.wait(20) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a process when its parent exits")
def test_processes_end_with_a_server_that_is_killed_while_it_starts() -> None:
    gate, web_end = socket.socketpair()
    with gate, web_end:
        env = processes.environment(HOST="127.0.0.1", PORT=str(free_port()), START_GATE=str(web_end.fileno()))
        process = subprocess.Popen(COMMAND, env=env, cwd=PROJECT, pass_fds=[web_end.fileno()])
        # From here on its process waits for the gate, before its event loop runs.
        assert gate.recv(1) == b"."
        left = list(processes.children(process.pid))
        process.kill()
        process.wait()
    wait_until(lambda: not any(is_running(pid) for pid in left))
    assert len(left) == 1


def test_requests_share_the_connections_to_redis(redis_url: str, token: str) -> None:
    with serving(REDIS_URL=redis_url, WEB_THREADS="2") as (_, port), redis.from_url(redis_url) as client:
        before = client.info("stats")["total_connections_received"]
        answers = [WireApi(token, port).get("/api/v1/relayers").status for _ in range(50)]
        opened = client.info("stats")["total_connections_received"] - before
    assert answers == [200] * 50
    # Those of the two threads, the queue's and those that other tests open in the meantime.
    assert opened < 25


def test_a_busy_port_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        env = processes.environment(HOST="127.0.0.1", PORT=str(port))
        done = subprocess.run(COMMAND, env=env, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"Cannot start: port {port} on 127.0.0.1 cannot be used (Address already in use); set PORT or HOST.\n"
    )


def test_an_application_that_cannot_be_imported_fails_at_startup(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("print('importing')\nraise RuntimeError('broken')\n")
    env = processes.environment(PORT=str(free_port()), WEB_PROCESSES="2", PYTHONPATH=f"{PROJECT}:{tmp_path}")
    done = subprocess.run(
        [*COMMAND, "broken:application"], env=env, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    # Once, before there are processes that would be replaced for ever.
    assert (done.returncode, done.stdout) == (1, "importing\n")
    assert done.stderr.splitlines()[-1] == "RuntimeError: broken"


@pytest.mark.parametrize("command", [COMMAND, processes.WORKER], ids=["web", "worker"])
def test_a_mistake_in_networks_file_fails_at_startup(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "networks.json"
    file.write_text('{"networks": {"ours": {"of_a_newer_release": 1}}}')
    env = processes.environment(PORT=str(free_port()), NETWORKS_FILE=str(file))
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 1
    assert "NETWORKS_FILE: networks.json: ours: of_a_newer_release: unknown field; use one of:" in done.stderr


def run_program(program: str, **settings: str) -> str:
    """Run a program in a process of its own, as what it tries concerns a whole process; return what it printed."""
    env = processes.environment(**settings)
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def test_a_worker_loads_no_pages_or_urls() -> None:
    program = (
        "import sys, django; django.setup();"
        "from django.core.management import call_command; from relayer_service.background import tasks;"
        "tasks.Worker.run = print; call_command('worker', skip_checks=False);"
        "print(sorted({'relayer_service.urls', 'relayer_service.admin', 'relayers.viewsets'} & sys.modules.keys()))"
    )
    assert run_program(program).splitlines()[-1] == "[]"


def test_processes_are_replaced_when_they_are_old() -> None:
    program = (
        "from relayer_service.server import serving as server;"
        "server.Server.startup = lambda self: print(self.workers_lifetime);"
        "server.WebServer('application', None).startup()"
    )
    assert run_program(program) == "86400\n"


def test_the_limit_of_open_files_is_raised_to_what_connections_need() -> None:
    program = (
        "import resource; from relayer_service.server import serving as server;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 3000));"
        "server.allow_connections(1000); print(*resource.getrlimit(resource.RLIMIT_NOFILE));"
        "server.allow_connections(9000); print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    assert run_program(program) == "2024 3000\n3000 3000\n"
