"""Thousands of queued transactions: how fast workers send them, what that costs, and what limits it."""

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

import orjson

from benchmarks.areas.webhooks import receiver
from benchmarks.databases import Bench
from benchmarks.node import nodes
from benchmarks.report import Failed, Row
from benchmarks.sending.deployment import Deployment, cpu_seconds, deployed, row_writes, server_pid
from benchmarks.sending.latency import NODE_PROGRAM
from benchmarks.sending.rows import create_apart

# Lanes, and how many transactions: one lane sends a window of nonces per block, whatever else is fast.
CASES = {1: 600, 10: 6_000, 100: 10_000, 500: 10_000}
FAST_CASES = {1: 32, 20: 400}
WORKERS, FAST_WORKERS = (1, 2), (1,)
MAX_SECONDS = 240
# The statistics of a connection are published by then.
STATISTICS_SECONDS = 2
# From which part of a resource on it is the bottleneck.
IS_BUSY = 0.8
WINDOW = 16
PROGRESS = """
SELECT count(*) FILTER (WHERE submitted_at IS NULL), count(*) FILTER (WHERE finished_at IS NULL)
FROM transactions_transaction
"""
SPANS = """
SELECT extract(epoch FROM max(submitted_at) - min(sent_at))::float8,
       extract(epoch FROM max(finished_at) - min(sent_at))::float8,
       count(*) FILTER (WHERE status = 'confirmed')
FROM transactions_transaction
"""


@dataclass(frozen=True)
class Run:
    lanes: int
    transactions: int
    workers: int
    webhooks: bool

    @property
    def name(self) -> str:
        lanes = "one lane" if self.lanes == 1 else f"{self.lanes} lanes"
        workers = "one worker" if self.workers == 1 else f"{self.workers} workers"
        return f"{self.transactions:,} by {lanes}, {workers}{', webhooks' if self.webhooks else ''}"


@dataclass(frozen=True)
class Usage:
    """CPU seconds by part, between the start of the workers and the last transaction."""

    workers: float
    database: float
    node: float
    seconds: float


def rows(bench: Bench) -> list[Row]:
    cases = FAST_CASES if bench.fast else CASES
    return [
        measure(bench, Run(lanes, transactions, workers, webhooks))
        for lanes, transactions in cases.items()
        for workers in (FAST_WORKERS if bench.fast else WORKERS)
        for webhooks in (False, True)
    ]


def measure(bench: Bench, run: Run) -> Row:
    with ExitStack() as stack:
        database = stack.enter_context(bench.postgresql())
        (url,) = stack.enter_context(nodes(0, program=NODE_PROGRAM)).values()
        webhook = f"http://127.0.0.1:{stack.enter_context(receiver())}/" if run.webhooks else ""
        deployment = stack.enter_context(deployed(database, web=False))
        queued = run.transactions // run.lanes
        create_apart(database, deployment.settings, url, run.lanes, webhook, queued)
        connection = stack.enter_context(database.connect())
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
        time.sleep(STATISTICS_SECONDS)
        before = row_writes(connection)
        usage = work(deployment, run, connection, node_pid(url))
        calls = read_figures(url)["requests"]
        sent_seconds, final_seconds, confirmed = connection.execute(SPANS).fetchone()
        deployment.stop()
        time.sleep(STATISTICS_SECONDS)
        after = row_writes(connection)
    if confirmed != queued * run.lanes:
        raise Failed(f"{run.name}: {confirmed} confirmed of {queued * run.lanes}")
    return row(run, confirmed, sent_seconds, final_seconds, usage, sum(after.values()) - sum(before.values()), calls)


def work(deployment: Deployment, run: Run, connection: Any, node: int) -> Usage:
    """Start the workers, wait until all is final, and return what they used."""
    database = server_pid(connection)
    base = cpu_seconds(database), cpu_seconds(node), time.monotonic()
    for _ in range(run.workers):
        deployment.start_worker()
    wait_until_final(deployment, connection)
    workers = sum(cpu_seconds(worker.pid) for worker in deployment.workers)
    return Usage(workers, cpu_seconds(database) - base[0], cpu_seconds(node) - base[1], time.monotonic() - base[2])


def wait_until_final(deployment: Deployment, connection: Any) -> None:
    deadline = time.monotonic() + MAX_SECONDS
    while time.monotonic() < deadline:
        unsent, left = connection.execute(PROGRESS).fetchone()
        if not left:
            return
        time.sleep(0.5)
    raise Failed(f"{unsent} transactions not sent, {left} not final: {deployment.log('worker-1')[-2000:]}")


def row(
    run: Run, count: int, sent_seconds: float, final_seconds: float, usage: Usage, writes: int, calls: dict[str, int]
) -> Row:
    rate = count / sent_seconds
    return Row(
        run.name,
        round(rate),
        "/s",
        f"limit: {bottleneck(run, rate, usage)}",
        beside={
            "confirmed/s": round(count / final_seconds),
            "worker CPU ms each": round(usage.workers / count * 1000, 1),
            "database CPU ms each": round(usage.database / count * 1000, 1),
            "busy cores": round((usage.workers + usage.database + usage.node) / usage.seconds, 2),
            "row writes each": round(writes / count, 1),
            "node requests each": round(calls["batches"] / count, 2),
        },
    )


def bottleneck(run: Run, rate: float, usage: Usage) -> str:
    """Return what is used up: the window of the lanes, a worker's interpreter, or the machine."""
    if rate >= IS_BUSY * run.lanes * WINDOW:
        return f"{WINDOW} nonces a lane and block"
    if usage.workers / usage.seconds >= IS_BUSY * run.workers:
        return "CPU of the worker" if run.workers == 1 else "CPU of the workers"
    if (usage.workers + usage.database + usage.node) / usage.seconds >= IS_BUSY * (os.cpu_count() or 1):
        return "CPU of the machine"
    return "waits for database and node"


def read_figures(url: str) -> dict[str, Any]:
    with urlopen(f"{url}figures") as answer:
        found: dict[str, Any] = orjson.loads(answer.read())
    return found


def node_pid(url: str) -> int:
    return int(read_figures(url)["pid"])
