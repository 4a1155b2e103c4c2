"""Many cases side by side: a database of its own for each, one chain with blocks for all."""

from __future__ import annotations

import json
import queue
import shutil
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests import processes, servers
from tests.chain.hardhat import Chain
from tests.chaos.cases import QUIET, Case

# Side by side: a case mostly waits, for leases, blocks and looks at the chain.
AT_ONCE = 8
QUIET_CHAINS = 2
BLOCK_MILLISECONDS = 200
ENVIRONMENT = {
    # Of the client that calls the service in the process of a case.
    "ALLOWED_HOSTS": "testserver",
    "EXTENSIONS": "transactions",
    "LANE_LEASE_SECONDS": "1",
    "WORKER_THREADS": "4",
    "DATABASE_POOL_SIZE": "8",
    # Several processes write to one file: on a slow machine each waits for the others.
    "DATABASE_LOCK_TIMEOUT_MS": "60000",
    "HEALTH_CHECK_SECONDS": "3600",
    "WEBHOOK_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
}


@dataclass(frozen=True)
class Result:
    case: Case
    violations: list[str]
    kills: int
    seconds: float = 0


class Databases:
    """Copies of a migrated database, one for each case."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self._lock = threading.Lock()

    def copy(self, number: int) -> str:
        """Return the name of a new copy."""
        if self.url.startswith("sqlite:"):
            file = self.folder / f"case-{number}.sqlite3"
            with (
                closing(sqlite3.connect(self.url.removeprefix("sqlite:"))) as source,
                closing(sqlite3.connect(file)) as target,
            ):
                source.backup(target)
            return str(file)
        name = f"chaos_{uuid.uuid4().hex}"
        template = urlsplit(self.url).path.strip("/")
        # Threads of earlier tests in this process may have left connections open, and may connect again.
        try:
            self._run(
                f'ALTER DATABASE "{template}" ALLOW_CONNECTIONS false',
                f"SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{template}'",
                f'CREATE DATABASE "{name}" TEMPLATE "{template}"',
            )
        finally:
            self._run(f'ALTER DATABASE "{template}" ALLOW_CONNECTIONS true')
        return name

    def drop(self, name: str) -> None:
        if self.url.startswith("sqlite:"):
            for file in Path(name).parent.glob(f"{Path(name).name}*"):
                file.unlink(missing_ok=True)
        else:
            self._run(f'DROP DATABASE "{name}" WITH (FORCE)')

    def _run(self, *statements: str) -> None:
        # One at a time: a template must not be in use.
        server = urlunsplit(urlsplit(self.url)._replace(path="/postgres"))
        with self._lock, psycopg.connect(server, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


@dataclass
class Chains:
    url: str
    # Those that are lent to one case at a time.
    quiet_urls: list[str]
    ledger: str


@contextmanager
def chains() -> Iterator[Chains]:
    """Run a chain that has blocks all the time, and some without, with the contract at the same address."""
    with ExitStack() as stack:
        found = [Chain(stack.enter_context(servers.hardhat())) for _ in range(1 + QUIET_CHAINS)]
        ledgers = {chain.deploy("Ledger") for chain in found}
        assert len(ledgers) == 1
        for chain in found:
            chain.rpc("evm_setAutomine", False)
        busy, *quiet = found
        busy.rpc("evm_setIntervalMining", BLOCK_MILLISECONDS)
        yield Chains(busy.url, [chain.url for chain in quiet], ledgers.pop())


def run(
    cases: Iterable[Case], database_urls: dict[str, str], chains: Chains, folder: Path, **environment: str
) -> Iterator[Result]:
    """Run cases, and yield the result of each as it ends; the URLs name a migrated database by engine."""
    with ExitStack() as stack:
        sources = {
            engine: stack.enter_context(_source(engine, url, folder, environment))
            for engine, url in database_urls.items()
        }
        yield from Campaign(list(cases), database_urls, chains, folder, sources).results()


@contextmanager
def _source(engine: str, url: str, folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{engine}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.source"],
            env=processes.environment() | {"DATABASE_URL": url} | ENVIRONMENT | environment,
            cwd=servers.PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        try:
            yield process
        finally:
            # The cases end with it.
            process.kill()
            process.communicate()


class Campaign:
    def __init__(
        self,
        cases: list[Case],
        urls: dict[str, str],
        chains: Chains,
        folder: Path,
        sources: dict[str, subprocess.Popen[bytes]],
    ) -> None:
        self.waiting = list(enumerate(cases))
        self.cases, self.chains, self.folder, self.sources = cases, chains, folder, sources
        self.run_id = uuid.uuid4().hex[:8]
        self.databases = {engine: Databases(url, folder) for engine, url in urls.items()}
        self.names: dict[int, str] = {}
        self.lent: dict[int, str] = {}
        self.answers: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def results(self) -> Iterator[Result]:
        for source in self.sources.values():
            threading.Thread(target=self._read, args=[source], daemon=True).start()
        running = 0
        while running or self.waiting:
            while running < AT_ONCE and (startable := self._startable()):
                self._start(*startable)
                running += 1
            answer = self.answers.get()
            if answer is None:
                raise RuntimeError(f"a process that forks cases has ended: see {self.folder}")
            running -= 1
            number = answer.pop("number")
            self._forget(number, keep=bool(answer["violations"]))
            yield Result(self.cases[number], **answer)

    def _startable(self) -> tuple[int, Case] | None:
        """Return the next case, one with a chain for itself only if there is one to lend."""
        for place, (_, case) in enumerate(self.waiting):
            if case.scenario not in QUIET or len(self.lent) < len(self.chains.quiet_urls):
                return self.waiting.pop(place)
        return None

    def _start(self, number: int, case: Case) -> None:
        if case.scenario in QUIET:
            self.lent[number] = next(url for url in self.chains.quiet_urls if url not in self.lent.values())
        self.names[number] = self.databases[case.engine].copy(number)
        order = {
            "number": number,
            "run": self.run_id,
            "case": case.to_json(),
            "database": self.names[number],
            "folder": str(self.folder / f"case-{number}"),
            "chain": self.chains.url,
            "quiet_chain": self.lent.get(number, ""),
            "ledger": self.chains.ledger,
        }
        source = self.sources[case.engine]
        assert source.stdin
        source.stdin.write(json.dumps(order).encode() + b"\n")
        source.stdin.flush()

    def _forget(self, number: int, *, keep: bool) -> None:
        """Remove what a case has left, unless somebody will want to look at it."""
        self.lent.pop(number, None)
        if not keep:
            self.databases[self.cases[number].engine].drop(self.names[number])
            shutil.rmtree(self.folder / f"case-{number}", ignore_errors=True)

    def _read(self, source: subprocess.Popen[bytes]) -> None:
        assert source.stdout
        for line in source.stdout:
            self.answers.put(json.loads(line))
        self.answers.put(None)
