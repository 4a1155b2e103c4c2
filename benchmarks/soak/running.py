"""What all soaks have in common: processes, servers, callers, and what is done to them meanwhile."""

import threading
import time
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.soak import logs, report, verdict
from benchmarks.soak.callers import Caller
from benchmarks.soak.chaos import SPARED_FROM, Chaos, Pace, plan
from benchmarks.soak.client import ANSWER_SECONDS, Site
from benchmarks.soak.fleet import WEB_COMMAND, WEB_PROCESSES, WORKERS, Fleet, Redis
from benchmarks.soak.memory import SAMPLE_SECONDS, Memory, leaks
from benchmarks.soak.preparation import create_database, machine, prepare_environment
from benchmarks.soak.receiver import receiving
from benchmarks.soak.rows import log_in
from tests import servers

DRAIN_SECONDS = 60
WATCHED_PART = 0.4
SAMPLE = "sample"


class Soak:
    """A run. A subclass creates the rows, has the callers, and compares what they were promised with what is there."""

    drain_seconds = DRAIN_SECONDS
    # Start, what is pending at the end, and stop; what takes longer hangs.
    beside_seconds = 120

    def __init__(self, pace: Pace, folder: Path, stack: ExitStack) -> None:
        self.pace = pace
        self.folder = folder
        self.started = time.monotonic()
        self.memory = Memory()
        self.faults: list[str] = []
        # Before the servers that send to it, so that it is there until they have ended.
        self.receiver = stack.enter_context(receiving())
        self.database = create_database(stack.enter_context(servers.postgresql()))
        self.redis = Redis(folder)
        stack.callback(self.redis.stop)
        environment = prepare_environment(folder, self.database, self.redis.url, **self.settings(stack))
        token = self.prepare(stack)
        self.connection = psycopg.connect(self.database, autocommit=True)
        stack.callback(lambda: self.connection.close())
        self.fleet = Fleet(environment, folder, stack)
        self.site = Site(self.fleet.port, token, log_in(self.fleet.port), ANSWER_SECONDS * pace.patience)
        self.chaos = self.create_chaos()

    def settings(self, stack: ExitStack) -> dict[str, str]:
        """Start what the settings depend on, and return them: only those that are not as shipped."""
        return {}

    def prepare(self, stack: ExitStack) -> str:
        """Create the rows, and return the token of the callers."""
        raise NotImplementedError

    def create_chaos(self) -> Chaos:
        return Chaos(self.fleet, self.redis, self.connection)

    def callers(self) -> list[Caller]:
        raise NotImplementedError

    def plan(self) -> list[tuple[float, str]]:
        return plan(self.pace)

    def is_drained(self) -> bool:
        """Return whether nothing is pending."""
        return bool(self.connection.execute(verdict.PENDING).fetchone() == (0,))

    def compare(self) -> None:
        """Add the faults."""
        raise NotImplementedError

    def figures(self) -> dict[str, Any]:
        """Return what this soak counts besides."""
        return {}

    def results(self) -> dict[str, Any]:
        start = time.monotonic()
        self.load()
        self.drain()
        self.compare()
        self.faults += self.fleet.stop(self.pace.patience)
        logged, unexplained = logs.read(self.folder)
        excused, faults = report.troubles(self.site.answers, self.chaos.done, self.pace.patience)
        emitted = verdict.outbox(self.connection)
        memory = self.memory.lines(self.pace.seconds * WATCHED_PART)
        return {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": machine(self.connection),
            "web_server": " ".join(WEB_COMMAND[1:]),
            "web_processes": WEB_PROCESSES,
            "workers": WORKERS,
            "seconds": round(time.monotonic() - self.started),
            "seconds_of_load": self.pace.seconds,
            "patience": self.pace.patience,
            "done": dict(Counter(disturbance.name for disturbance in self.chaos.done)),
            "requests": report.request_figures(self.site.answers),
            "failed_by_it": report.excuses(excused, self.chaos.done, start, self.pace.patience),
            **self.figures(),
            "webhooks": verdict.webhook_figures(emitted, self.receiver),
            "memory": memory,
            "exceptions_logged": logged,
            "faults": self.faults + faults + unexplained + leaks(memory),
        }

    def load(self) -> None:
        """Run all callers, and what is planned against the service."""
        threads = [threading.Thread(target=caller.run, daemon=True) for caller in self.callers()]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        samples = [(at, SAMPLE) for at in range(0, self.pace.seconds, SAMPLE_SECONDS)]
        for at, what in sorted([*self.plan(), *samples]):
            time.sleep(max(0, start + at - time.monotonic()))
            if what == SAMPLE:
                self.watch()
            else:
                print(f"{at:>5.0f} s  {what}", flush=True)
                self.chaos.do(what, spare_oldest=at >= SPARED_FROM * self.pace.seconds)
        time.sleep(max(0, start + self.pace.seconds - time.monotonic()))
        self.site.stopping.set()
        for thread in threads:
            thread.join()

    def watch(self) -> None:
        now = time.monotonic()
        for pid in self.fleet.web_processes():
            self.memory.sample("web process", pid, now)
        for pid in self.fleet.worker_processes():
            self.memory.sample("worker", pid, now)
        self.faults += self.fleet.ended()

    def drain(self) -> None:
        """Wait until all is well and nothing pending, for as long as it may take that a killed worker held."""
        deadline = time.monotonic() + self.drain_seconds * self.pace.patience
        while time.monotonic() < deadline:
            if self.is_drained() and self.fleet.workers_are_up() and not verdict.not_ready(self.fleet.port):
                return
            time.sleep(0.5)
