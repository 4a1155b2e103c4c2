"""The service as a deployment runs it: two web processes behind nginx, two workers, PostgreSQL and Redis."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from relayer_service.local.supervisor import Supervisor
from tests import processes, proxy, servers
from tests.api import Answer, Api, WireApi
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.settings import SECRETS

DATABASE = "relayer_topology"
PASSWORD = "a-password-of-the-topology"
ARGUMENTS = Supervisor().arguments
WEB_UNIT = (servers.PROJECT / "deploy/systemd/relayer-web@.service").read_text()
# Without its last word, for how many seconds it waits.
HEALTH_WAIT = re.findall(r"^ExecStartPost=\S+ (.*) \d+$", WEB_UNIT, re.M)


@dataclass
class TlsApi(Api):
    """Calls the service through the proxy, as a client elsewhere does, over one connection that is kept."""

    connection: http.client.HTTPSConnection = field(kw_only=True)

    def exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        self.connection.request(method, path, body, headers)
        response = self.connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())


@dataclass
class DirectApi(WireApi):
    """Calls one web process as the proxy does, to see what that one answers."""

    def exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        return super().exchange(method, path, body, {"X-Forwarded-Proto": "https", **headers})


class Topology:
    def __init__(self, folder: Path, database_url: str, redis_url: str) -> None:
        self.folder = folder
        self.ports = [servers.free_port(), servers.free_port()]
        self.database_url = database_url
        # What a deployment sets, and what tests on one machine need besides.
        self.environment = SECRETS | {
            "PATH": os.environ["PATH"],
            "DATA_DIR": str(folder),
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_url,
            "ALLOWED_HOSTS": "localhost,127.0.0.1",
            "TRUSTED_PROXIES": "127.0.0.1",
            # Its staff sign in with a password alone.
            "REQUIRE_SECOND_FACTOR": "none",
            "RATE_LIMIT_LIST_RELAYERS": "10/d",
            "RATE_LIMIT_RPC": "",
            "HEALTH_CHECK_SECONDS": "3600",
            "WORKER_THREADS": "4",
            "WEBHOOK_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
        }
        self.webs: dict[int, subprocess.Popen[bytes]] = {}
        self.proxy: proxy.Proxy

    def manage(self, *arguments: str) -> str:
        """Run a command as an operator does, and return what it prints."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=servers.PROJECT,
            env=self.environment | {"DJANGO_SUPERUSER_PASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start(self, name: str, *arguments: str, **extra: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return processes.start([sys.executable, *arguments], self.environment | extra, log)

    def start_worker(self, number: int) -> subprocess.Popen[bytes]:
        return self.start(f"worker-{number}", *ARGUMENTS["worker"], "--beat", str(self.beat_file(number)))

    def beat_file(self, number: int) -> Path:
        return self.folder / f"worker-{number}.beat"

    def start_web(self, port: int) -> None:
        """Start a web process and wait for it, both as its unit does."""
        address = {"HOST": "127.0.0.1", "PORT": str(port)}
        self.webs[port] = self.start(f"web-{port}", *ARGUMENTS["web"], **address)
        command = [sys.executable, *HEALTH_WAIT, str(PATIENCE_SECONDS)]
        subprocess.run(command, cwd=servers.PROJECT, env=self.environment | address, check=True)

    def replace_web(self, port: int) -> int:
        """Stop a web process, put another in its place, and return the code with which the old one ended."""
        code = processes.stop(self.webs[port])
        self.start_web(port)
        return code

    @contextmanager
    def outside(self, token: str = "") -> Iterator[TlsApi]:
        connection = http.client.HTTPSConnection(
            "localhost", self.proxy.https_port, context=self.proxy.trusting(), timeout=PATIENCE_SECONDS
        )
        with closing(connection):
            yield TlsApi(token, connection=connection)

    def each_web(self, token: str) -> list[DirectApi]:
        return [DirectApi(token, port) for port in self.ports]

    def browser(self) -> Browser:
        return Browser(self.proxy)

    def log(self, name: str) -> list[str]:
        return (self.folder / f"{name}.log").read_text().splitlines()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(statement.encode()).fetchall()

    def slot(self, name: str) -> int:
        """Return the number of the turn that periodic work has reached."""
        slots = self.rows(f"SELECT slot FROM relayer_service_periodicrun WHERE name = '{name}'")
        return int(slots[0][0]) if slots else 0

    def wait_for_turns(self, name: str, turns: int = 3) -> None:
        """Wait until periodic work has had the occasion to do something a second time."""
        reached = self.slot(name) + turns
        wait_until(lambda: self.slot(name) >= reached)


Ask = Callable[[TlsApi], Answer]
# What `read` and `call` get from a service that answers.
EXPECTED = {"read 200", "call 404"}


def read(client: TlsApi) -> Answer:
    return client.get("/api/v1/signers?per_page=0")


def call(client: TlsApi) -> Answer:
    return client.post("/api/v1/relayers/none/rpc", {"jsonrpc": "2.0", "id": "1", "method": "none", "params": {}})


class Load:
    """Clients that ask through the proxy without a pause, over connections that they keep, and count the answers."""

    def __init__(self, service: Topology, *asks: Ask) -> None:
        self.service, self.token = service, service.manage("issue_token", "busy")
        self.answers: Counter[str] = Counter()
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=[ask]) for ask in asks]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, count: int = 200) -> None:
        enough = self.answers.total() + count
        wait_until(lambda: self.answers.total() >= enough)

    def _ask(self, ask: Ask) -> None:
        try:
            with self.service.outside(self.token) as client:
                while not self._ending.is_set():
                    self.answers[f"{ask.__name__} {ask(client).status}"] += 1
        except (OSError, http.client.HTTPException) as error:
            self.answers[f"{ask.__name__} {error!r}"] += 1


class Browser:
    """What a person's browser does: keeps cookies, follows redirects, and says from which page it comes."""

    def __init__(self, proxy: proxy.Proxy) -> None:
        self.url = f"https://localhost:{proxy.https_port}"
        self.opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=proxy.trusting()), urllib.request.HTTPCookieProcessor(CookieJar())
        )

    def open(self, path: str, form: dict[str, str] | None = None) -> str:
        data = urllib.parse.urlencode(form).encode() if form else None
        request = urllib.request.Request(self.url + path, data, {"Referer": self.url + path, "Origin": self.url})
        with self.opener.open(request, timeout=PATIENCE_SECONDS) as response:
            text: str = response.read().decode()
        return text

    def submit(self, path: str, **form: str) -> str:
        """Open a page and send its form, with the token that it holds against forged requests."""
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.open(path))
        assert token is not None
        return self.open(path, {"csrfmiddlewaretoken": token[1], **form})


@contextmanager
def database() -> Iterator[str]:
    """Yield the URL of a database of its own, on a server that tests use or start."""
    with servers.postgresql(durable=False) as server, psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {DATABASE}")
        yield urlunsplit(urlsplit(server)._replace(path=f"/{DATABASE}"))
        connection.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


@contextmanager
def running(folder: Path, redis_url: str) -> Iterator[Topology]:
    with ExitStack() as stack:
        topology = Topology(folder, stack.enter_context(database()), redis_url)
        topology.manage("migrate", "--noinput")
        topology.manage("collectstatic", "--noinput")
        topology.manage("createsuperuser", "--noinput", "--username", "admin", "--email", "")
        for number in (1, 2):
            stack.callback(processes.stop, topology.start_worker(number))
        stack.callback(lambda: [processes.stop(web) for web in topology.webs.values()])
        for port in topology.ports:
            topology.start_web(port)
        (folder / "nginx").mkdir()
        topology.proxy = stack.enter_context(proxy.nginx(folder / "nginx", topology.ports))
        yield topology
