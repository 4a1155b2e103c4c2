"""A client before and after forks, in several event loops, and with an httpx client of the caller."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from relayer_client import AsyncClient, Client
from tests.client.examples import TRANSACTION
from tests.client.scripted_server import Answer, Request, ScriptedServer, ok, scripted
from tests.servers import PROJECT, free_port, serving, wait_for_port

SIGNER = {"id": "s", "type": "plain", "config": {}}
# A process without threads: 8 children of a client that has an open connection, which call at the same time.
FORKING = """
import asyncio, os, sys
from relayer_client import AsyncClient, Client

url, kind = sys.argv[1:]
client = Client(url, "t") if kind == "Client" else AsyncClient(url, "t")

def call(name):
    ids = [f"{name}-{number}" for number in range(20)]
    if kind == "Client":
        return [client.get_signer(each).id for each in ids] == ids
    async def read():
        return [(await client.get_signer(each)).id for each in ids] == ids
    return asyncio.run(read())

call("parent")
children = []
for child in range(8):
    if not (pid := os.fork()):
        succeeded = False
        try:
            succeeded = call(child)
        finally:
            os._exit(0 if succeeded else 1)
    children.append(pid)
succeeded = call("parent")
sys.exit(sum(os.waitpid(pid, 0)[1] != 0 for pid in children) + (not succeeded))
"""

# A web application whose client has called before `gunicorn --preload` forks.
PRELOADED = """
import os
from relayer_client import Client

client = Client(os.environ["URL"], "t")
client.get_signer("preloaded")

def application(environ, start_response):
    start_response("200 OK", [("Worker", str(os.getpid()))])
    return [client.get_signer(environ["PATH_INFO"][1:]).id.encode()]
"""


class Echo(ScriptedServer):
    """Answers with the signer that is asked for."""

    def next(self, request: Request) -> Answer:
        time.sleep(0.002)
        return ok(SIGNER | {"id": request.path.rpartition("/")[2]})


@pytest.fixture
def echo() -> Iterator[ScriptedServer]:
    server = Echo([])
    server.daemon_threads = True
    with serving(server, threading.Event()):
        yield server


@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_children_of_a_fork_read_their_own_responses(echo: ScriptedServer, kind: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(PROJECT / "client")}
    command = [sys.executable, "-c", FORKING, echo.url, kind]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_workers_of_a_preloaded_application_read_their_own_responses(echo: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / "preloaded.py").write_text(PRELOADED)
    port = free_port()
    options = ["--preload", "--workers=3", "--threads=2", f"--bind=127.0.0.1:{port}", "--no-control-socket"]
    env = {**os.environ, "URL": echo.url, "PYTHONPATH": str(PROJECT / "client")}
    command = [sys.executable, "-m", "gunicorn", *options, "preloaded:application"]
    process = subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port, process=process)
        names = [f"signer-{number}" for number in range(300)]
        with httpx.Client(headers={"Connection": "close"}) as http, ThreadPoolExecutor(12) as threads:
            answers = list(threads.map(lambda name: http.get(f"http://127.0.0.1:{port}/{name}", timeout=60), names))
    finally:
        process.terminate()
        process.wait(60)
    assert [answer.text for answer in answers] == names
    assert len({answer.headers["Worker"] for answer in answers}) > 1


def test_an_httpx_client_of_the_caller_is_refused_after_a_fork(
    echo: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with httpx.Client() as shared:
        client, other = (Client(echo.url, "t", http=shared) for _ in range(2))
        assert client.get_signer("a").id == "a"
        monkeypatch.setattr(os, "getpid", lambda: 0)
        with pytest.raises(RuntimeError, match="after the fork"):
            client.get_signer("a")
        # It belongs to the process of its first use.
        assert other.get_signer("a").id == "a"


# A fork while a transaction is reported, whose child reports it, too.
FORKING_WAKEUP = """
import os, signal, sys
from relayer_client.wakeups import Wakeup, Wakeups

class Forking(Wakeup):
    def wake(self):
        if not (pid := os.fork()):
            signal.alarm(20)
            own = Wakeup()
            with wakeups.register("t", own):
                wakeups.wake("t")
                os._exit(0 if own.pause(0) else 1)
        sys.exit(os.waitpid(pid, 0)[1] != 0)

wakeups = Wakeups()
with wakeups.register("t", Forking()):
    wakeups.wake("t")
"""


def test_webhooks_are_reported_after_a_fork() -> None:
    env = {**os.environ, "PYTHONPATH": str(PROJECT / "client")}
    command = [sys.executable, "-c", FORKING_WAKEUP]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_client_works_in_a_second_event_loop(echo: ScriptedServer) -> None:
    client = AsyncClient(echo.url, "t")

    async def call() -> str:
        return (await client.get_signer("a")).id

    # The connections of a closed event loop cannot be closed properly.
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        assert [asyncio.run(call()) for _ in range(3)] == ["a"] * 3
        asyncio.run(client.close())
        gc.collect()


def test_an_httpx_client_of_the_caller_is_refused_in_a_second_event_loop(echo: ScriptedServer) -> None:
    fake = httpx.MockTransport(lambda _: httpx.Response(200, json={"status": "ok"}))
    client = AsyncClient(echo.url, "t", http=httpx.AsyncClient(transport=fake))
    assert asyncio.run(client.health())
    with pytest.raises(RuntimeError, match="event loop"):
        asyncio.run(client.health())


def test_an_httpx_client_of_the_caller_stays_open() -> None:
    with scripted(ok(TRANSACTION)) as server, httpx.Client() as shared:
        with Client(server.url, "t", http=shared):
            pass
        with Client(server.url, "t", http=shared) as client:
            assert client.relayer("r").send(value=0).id == TRANSACTION["id"]
        with pytest.raises(RuntimeError, match="closed"):
            client.get_signer("s")
        with pytest.raises(ValueError, match="timeout cannot be set together with http"):
            Client(server.url, "t", http=shared, timeout=5)
