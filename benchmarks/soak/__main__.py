"""`make soak`: call the service for minutes while its processes are killed and its servers are taken away."""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.load import Failed
from benchmarks.soak import logs, report, verdict
from benchmarks.soak.callers import (
    ESTIMATES,
    PAGES,
    REFUSALS,
    RELAYER_LISTS,
    SIGNER_LISTS,
    Caller,
    Creator,
    Patcher,
    Pauser,
    Prober,
    Reader,
)
from benchmarks.soak.chaos import SPARED_FROM, Chaos, Pace, plan
from benchmarks.soak.client import ANSWER_SECONDS, Client, Site
from benchmarks.soak.fleet import WEB_COMMAND, WEB_PROCESSES, WORKERS, Fleet, Redis
from benchmarks.soak.memory import SAMPLE_SECONDS, Memory, leaks
from benchmarks.soak.preparation import create_database, machine, prepare_environment, prepare_rows, start_node
from benchmarks.soak.receiver import receiving
from benchmarks.soak.rows import log_in
from tests import servers

RESULTS = Path(__file__).parent.parent / "soak.json"
# Start, the last webhooks and stop; what takes longer hangs.
BESIDE_SECONDS = 120
DRAIN_SECONDS = 60
WATCHED_PART = 0.4
SAMPLE = "sample"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=480, help="for which the service is called")
    parser.add_argument("--fast", action="store_true", help="a smoke run of a minute, which writes nothing")
    parser.add_argument("--patience", type=int, default=1, help="by which each limit of time is multiplied")
    options = parser.parse_args(arguments)
    pace = Pace(options.seconds, patience=options.patience)
    if options.fast:
        pace = Pace(40, kill_seconds=8, cut_seconds=12, redis_seconds=4, patience=options.patience)
    # So that the servers are stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("The soak hangs: it took longer than it may."))
    signal.alarm(pace.seconds + BESIDE_SECONDS * pace.patience)
    # The files of secrets are for this user alone.
    os.umask(0o077)
    folder = Path(tempfile.mkdtemp(prefix="relayer-soak-"))
    try:
        with ExitStack() as stack:
            results = Soak(pace, folder, stack).results()
    except (Failed, servers.Unavailable) as reason:
        print(f"The soak is void: {reason}", file=sys.stderr)
        return 1
    report.print_results(results)
    if not options.fast:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
        print(f"\nWritten to benchmarks/{RESULTS.name} after {results['seconds']} s.")
    if results["faults"]:
        print(f"The logs are in {folder}.")
        return 1
    shutil.rmtree(folder)
    return 0


class Soak:
    def __init__(self, pace: Pace, folder: Path, stack: ExitStack) -> None:
        self.pace = pace
        self.folder = folder
        self.started = time.monotonic()
        self.memory = Memory()
        self.faults: list[str] = []
        # Before the servers that send to it, so that it is there until they have ended.
        self.receiver = stack.enter_context(receiving())
        database = create_database(stack.enter_context(servers.postgresql()))
        self.redis = Redis(folder)
        stack.callback(self.redis.stop)
        environment = prepare_environment(folder, database, self.redis.url)
        self.rows = prepare_rows(start_node(stack), self.receiver)
        self.connection = stack.enter_context(psycopg.connect(database, autocommit=True))
        self.fleet = Fleet(environment, folder, stack)
        cookies = log_in(self.fleet.port)
        self.site = Site(self.fleet.port, self.rows.token, cookies, ANSWER_SECONDS * pace.patience)
        self.chaos = Chaos(self.fleet, self.redis, self.connection)
        self.creators = [Creator(self.site)]
        self.patchers = [Patcher(self.site, target, self.receiver) for target in self.rows.targets]
        self.pausers = [Pauser(self.site, relayer) for relayer in self.rows.relayers[::2]]
        self.probers = [Prober(self.site, target) for target in self.rows.targets[1::2]]

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
            "done": dict(Counter(disturbance.name for disturbance in self.chaos.done)),
            "requests": report.request_figures(self.site.answers),
            "failed_by_it": report.excuses(excused, self.chaos.done, start, self.pace.patience),
            "signers_acknowledged": sum(len(creator.acknowledged) for creator in self.creators),
            "patches_acknowledged": sum(patcher.acknowledged for patcher in self.patchers),
            "events_acknowledged": sum(caller.acknowledged for caller in [*self.pausers, *self.probers]),
            "webhooks": verdict.webhook_figures(emitted, self.receiver),
            "memory": memory,
            "exceptions_logged": logged,
            "faults": self.faults + faults + unexplained + leaks(memory),
        }

    def callers(self) -> list[Caller]:
        readers = [Reader(self.site, SIGNER_LISTS) for _ in range(3)]
        readers += [Reader(self.site, RELAYER_LISTS) for _ in range(2)]
        readers += [Reader(self.site, ESTIMATES) for _ in range(3)]
        readers += [Reader(self.site, PAGES, 0.3) for _ in range(2)]
        readers += [Reader(self.site, REFUSALS, 0.1)]
        return [*readers, *self.creators, *self.patchers, *self.pausers, *self.probers]

    def load(self) -> None:
        """Let all callers call, and do to the service what is planned."""
        threads = [threading.Thread(target=caller.run, daemon=True) for caller in self.callers()]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        samples = [(at, SAMPLE) for at in range(0, self.pace.seconds, SAMPLE_SECONDS)]
        for at, what in sorted([*plan(self.pace), *samples]):
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
        """Wait until all is well and no webhook pending, for as long as one may take that a killed worker held."""
        deadline = time.monotonic() + DRAIN_SECONDS * self.pace.patience
        while time.monotonic() < deadline:
            pending = self.connection.execute(verdict.PENDING).fetchone()
            if pending == (0,) and self.fleet.workers_are_up() and not verdict.not_ready(self.fleet.port):
                return
            time.sleep(0.5)

    def compare(self) -> None:
        client = Client(self.site)
        emitted = verdict.outbox(self.connection)
        self.faults += verdict.lost_signers(client, self.creators)
        self.faults += verdict.lost_patches(self.patchers)
        self.faults += verdict.lost_events(emitted, self.pausers, self.probers)
        self.faults += verdict.lost_webhooks(emitted, self.receiver)
        self.faults += verdict.not_ready(self.fleet.port)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
