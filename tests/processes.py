"""The service's own processes, as a deployment runs them, on the test database."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.db import connection, connections

from tests.concurrency import PATIENCE_SECONDS
from tests.servers import PROJECT, free_port, wait_for_port

WORKER = [sys.executable, "manage.py", "worker"]


def database_url(alias: str = "default") -> str:
    """Name a database for another process to use: the one that pytest-django made, or another of the tests."""
    name = str(connections[alias].settings_dict["NAME"])
    if connection.vendor == "sqlite":
        return f"sqlite:{name}"
    return urlunsplit(urlsplit(settings.DATABASE_URL)._replace(path=f"/{name}"))


def environment(**extra: str) -> dict[str, str]:
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DATABASE_URL": database_url(),
        "DATA_DIR": str(settings.DATA_DIR),
        **extra,
    }


def start(command: list[str], env: Mapping[str, str], log: IO[bytes] | int | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env=env, cwd=PROJECT, stdout=log, stderr=log)


@contextmanager
def web(log: Path, **extra: str) -> Iterator[int]:
    """Run the web server and yield its port."""
    port = free_port()
    env = environment(PORT=str(port), HOST="127.0.0.1", **extra)
    command = [sys.executable, "-m", "relayer_service.server"]
    with log.open("wb") as file:
        process = start(command, env, file)
        try:
            wait_for_port(port, process=process)
            yield port
        finally:
            stop(process)


def worker(log: IO[bytes] | int | None = None, **extra: str) -> subprocess.Popen[bytes]:
    return start(WORKER, environment(**extra), log)


def stop(process: subprocess.Popen[bytes]) -> int:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def children(pid: int) -> dict[int, str]:
    """The commands of the processes that a process started, and they in turn, by their ids."""
    table = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in table.splitlines()]
    found = {int(child): command for child, parent, command in rows if int(parent) == pid}
    for child in list(found):
        found |= children(child)
    return found
