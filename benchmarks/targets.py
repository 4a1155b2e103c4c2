"""The servers that are compared: the service, the plain way in two web servers, and the limit."""

import http.client
import subprocess
import sys
from collections.abc import Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.databases import STOCK_SETTINGS, STOCK_TOKEN, Database
from benchmarks.load import Request, drive
from benchmarks.report import Failed
from tests.processes import stop
from tests.servers import PROJECT, free_port, wait_for_port

Key = TypeVar("Key", bound=Hashable)

SERVICE, GUNICORN, GRANIAN, LIMIT = "service", "stock on gunicorn", "stock on granian", "limit"
TARGETS = (SERVICE, GUNICORN, GRANIAN, LIMIT)
STOCK_APPLICATION = "benchmarks.stock.wsgi:application"
LIMIT_APPLICATION = "benchmarks.limit:served"
# The web process as it is shipped.
SHIPPED = ["relayer_service.server"]


def command(target: str, port: int) -> list[str]:
    """Return the module and its arguments that serve a target."""
    if target == SERVICE:
        return SHIPPED
    if target == LIMIT:
        return [*SHIPPED, LIMIT_APPLICATION]
    if target == GUNICORN:
        # As people deploy it.
        options = ["-k", "gthread", "--threads", "64", "-w", "1", "-b", f"127.0.0.1:{port}"]
        return ["gunicorn", *options, STOCK_APPLICATION]
    options = ["--interface", "wsgi", "--blocking-threads", "4", "--workers", "1", "--port", str(port)]
    return ["granian", *options, STOCK_APPLICATION]


@dataclass(frozen=True)
class Server:
    target: str
    port: int
    authorization: str
    process: subprocess.Popen[bytes]
    log: Path

    def request(self, path: str, new: str = "") -> Request:
        if new:
            return Request(path, self.authorization, "POST", new, status=201)
        return Request(path, self.authorization)

    def warm_up(self, path: str, requests: int) -> None:
        request = self.request(path)
        drive(self.port, [(request.encoded(), request)] * requests)

    def answer(self, request: Request) -> bytes:
        """Make a request once and return the body of its answer."""
        return fetch(self.port, request, self.target)


def fetch(port: int, request: Request, target: str = SERVICE) -> bytes:
    """Make a request once and return the body of its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        headers = {"Authorization": request.authorization, "Content-Type": "application/json"}
        connection.request(request.method, request.path, request.body or None, headers)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != request.status:
        raise Failed(f"{target} answered {response.status} to {request.path}: {body[:200]!r}")
    return body


@contextmanager
def serving(wanted: Mapping[Key, tuple[Database, str]], **settings: str) -> Iterator[dict[Key, Server]]:
    """Serve targets, all started at once; what they log goes to files of their databases' folders."""
    with ExitStack() as stack:
        servers = {
            key: stack.enter_context(_started(database, target, settings))
            for key, (database, target) in wanted.items()
        }
        for server in servers.values():
            try:
                wait_for_port(server.port, process=server.process)
            except RuntimeError:
                raise Failed(f"{server.target} did not start: {server.log.read_text()[-2000:]}") from None
        yield servers
        # All at once, as each takes a while.
        for server in servers.values():
            server.process.terminate()


@contextmanager
def _started(database: Database, target: str, settings: dict[str, str]) -> Iterator[Server]:
    port = free_port()
    env = database.environment | {"HOST": "127.0.0.1", "PORT": str(port)} | settings
    authorization = f"Bearer {database.token}"
    if target in {GUNICORN, GRANIAN}:
        env, authorization = env | {"DJANGO_SETTINGS_MODULE": STOCK_SETTINGS}, f"Token {STOCK_TOKEN}"
    log = database.folder / f"{target}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *command(target, port)], env=env, cwd=PROJECT, stdout=file, stderr=file
        )
        try:
            yield Server(target, port, authorization, process, log)
        finally:
            stop(process)
