"""The service as it is deployed to send: a web process, workers and Redis, with the time that their CPUs take."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.databases import Database
from benchmarks.report import Failed
from benchmarks.soak.proc import PROC, children
from tests import servers
from tests.processes import stop

EXTENSIONS = "lifecycle,transactions"
WEB_COMMAND = [sys.executable, "-m", "relayer_service.server"]
WORKER_COMMAND = [sys.executable, "manage.py", "worker"]
# After the name in /proc/PID/stat: user and system time of a process, and of its children that have ended.
CPU_FIELDS = slice(11, 15)
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Deployment:
    database: Database
    settings: dict[str, str]
    port: int
    project: Path = servers.PROJECT
    web: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return self.database.environment | self.settings | {"HOST": "127.0.0.1", "PORT": str(self.port)}

    def start_web(self) -> None:
        self.web = self._start("web", WEB_COMMAND)

    def wait_for_web(self) -> None:
        try:
            servers.wait_for_port(self.port, process=self.web)
        except RuntimeError:
            raise Failed(f"the web process did not start: {self.log('web')[-2000:]}") from None

    def start_worker(self) -> None:
        name = f"worker-{len(self.workers) + 1}"
        self.beat_file(name).unlink(missing_ok=True)
        self.workers.append(self._start(name, [*WORKER_COMMAND, "--beat", str(self.beat_file(name))]))

    def wait_for_worker(self) -> None:
        """Wait until the worker that was started last works."""
        deadline = time.monotonic() + servers.START_SECONDS
        while not self.beat_file(f"worker-{len(self.workers)}").exists():
            if time.monotonic() > deadline or self.workers[-1].poll() is not None:
                raise Failed(f"the worker did not start: {self.log(f'worker-{len(self.workers)}')[-2000:]}")
            time.sleep(0.05)

    def wait_until_all_have(self, column: str, seconds: float = 60, pause: float = 0.05) -> None:
        """Wait until no transaction lacks a value in this column."""
        deadline = time.monotonic() + seconds
        with self.database.connect() as connection:
            while time.monotonic() < deadline:
                query = f"SELECT count(*) FROM transactions_transaction WHERE {column} IS NULL"
                (left,) = connection.execute(query).fetchone()
                if not left:
                    return
                time.sleep(pause)
        raise Failed(f"{left} transactions without {column} after {seconds:g} s: {self.log('worker-1')[-2000:]}")

    def beat_file(self, name: str) -> Path:
        return self.database.folder / f"{name}.beat"

    def kill_worker(self, number: int = 0) -> None:
        self.workers[number].kill()
        self.workers[number].wait()

    def kill_all(self) -> None:
        """Kill every process of the service at once."""
        assert self.web is not None
        # A web server without its supervisor would be left behind.
        pids = [*children(self.web.pid), self.web.pid, *(each.pid for each in self.workers)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        for process in (self.web, *self.workers):
            process.wait()
        self.workers.clear()

    def stop(self) -> None:
        running = [each for each in (self.web, *self.workers) if each is not None and each.poll() is None]
        # All at once, as each takes a while.
        for process in running:
            process.terminate()
        for process in running:
            stop(process)

    def log(self, name: str) -> str:
        return (self.database.folder / f"{name}.log").read_text(errors="replace")

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.database.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, env=self.environment, cwd=self.project, stdout=log, stderr=log)


@contextmanager
def deployed(
    database: Database, *, web: bool = True, workers: int = 0, project: Path = servers.PROJECT, **settings: str
) -> Iterator[Deployment]:
    """Run the service of a checkout on a database, with a Redis that keeps nothing."""
    with ExitStack() as stack:
        redis = stack.enter_context(servers.redis())
        shared = {"REDIS_URL": redis, "EXTENSIONS": EXTENSIONS, "WEBHOOK_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8"}
        deployment = Deployment(database, shared | settings, servers.free_port(), project)
        stack.callback(deployment.stop)
        if web:
            deployment.start_web()
        for _ in range(workers):
            deployment.start_worker()
        if web:
            deployment.wait_for_web()
        yield deployment


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of its children, those that run and those that have ended."""
    with suppress(OSError):
        times = (PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()[CPU_FIELDS]
        return sum(map(int, times)) / TICKS + sum(cpu_seconds(child) for child in children(pid))
    return 0.0


def server_pid(connection: Any) -> int:
    """Return the process of a local PostgreSQL server."""
    (folder,) = connection.execute("SHOW data_directory").fetchone()
    return int((Path(folder) / "postmaster.pid").read_text().split()[0])


def row_writes(connection: Any) -> dict[str, int]:
    """Return the rows written so far in this database, by table."""
    query = "SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables"
    return {name: int(writes) for name, writes in connection.execute(query)}
