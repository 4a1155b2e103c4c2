"""What a transaction costs: CPU of the worker, calls of the node and statements, in a burst and in a trickle.

With BASELINE, the folder of another checkout of this project, each case is measured for both, one after the other.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import orjson

from benchmarks.databases import Bench, Database, named, run_apart
from benchmarks.node import nodes
from benchmarks.report import Failed, Row
from benchmarks.sending.deployment import Deployment, cpu_seconds, deployed, server_pid
from benchmarks.sending.latency import NODE_PROGRAM, send
from benchmarks.sending.rows import Senders, create_apart, queue_apart
from benchmarks.soak.proc import resident_kilobytes
from tests import servers
from tests.servers import PROJECT

BASELINE = os.environ.get("BASELINE", "")
# Lanes, and how many transactions are queued.
BURSTS = {1: 300, 10: 3_000, 50: 6_000, 200: 8_000}
FAST_BURSTS = {10: 500}
TRICKLE_LANES, TRICKLE_RATE = 20, 12
TRICKLE_SECONDS, FAST_TRICKLE_SECONDS = 60, 10
# Without what only begins and ends transactions, and without checks of foreign keys, which the server makes itself.
OWN_STATEMENTS = """
FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND query !~* '^(begin|commit|rollback|savepoint|release|set|discard|deallocate)|pg_stat_statements|share of x'
"""
SPAN = """
SELECT extract(epoch FROM max(finished_at) - min(sent_at))::float8, count(*) FILTER (WHERE status = 'confirmed')
FROM transactions_transaction WHERE sequence > %s
"""
MAX_SECONDS = 300
MAX_BURST_MS, MAX_TRICKLE_MS = 5, 20


@dataclass(frozen=True)
class Case:
    lanes: int
    transactions: int
    workers: int = 1
    is_trickle: bool = False

    @property
    def name(self) -> str:
        lanes, workers = f"{self.lanes} lane{'s'[: self.lanes > 1]}", f"{self.workers} worker{'s'[: self.workers > 1]}"
        return f"{'trickle' if self.is_trickle else 'burst'} of {self.transactions:,}, {lanes}, {workers}"


@dataclass(frozen=True)
class Cost:
    """Of one transaction, but for the rate and the memory of the workers."""

    worker_ms: float
    database_ms: float
    calls: float
    statements: float
    confirmed_per_second: float
    memory_mb: float


@contextmanager
def database_of(server: str, bench: Bench, project: Path) -> Iterator[Database]:
    """Yield a new database with the schema of a checkout."""
    import psycopg

    name = f"cost_{os.urandom(4).hex()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            database = Database(named(server, name), bench.new_folder(), "")
            run_apart(["-m", "benchmarks.databases"], database.environment, project)
            with database.connect() as own:
                own.execute("CREATE EXTENSION pg_stat_statements")
            yield database
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def measure(server: str, bench: Bench, case: Case, project: Path = PROJECT, *, verbose: bool = False) -> Cost:
    with ExitStack() as stack:
        database = stack.enter_context(database_of(server, bench, project))
        (url,) = stack.enter_context(nodes(0, program=NODE_PROGRAM)).values()
        deployment = stack.enter_context(
            deployed(database, web=case.is_trickle, workers=case.workers, project=project)
        )
        # One transaction by each lane: what it costs to meet the chain for the first time is not measured.
        senders = create_apart(database, deployment.settings, url, case.lanes, "", 1, project)
        connection = stack.enter_context(database.connect())
        deployment.wait_until_all_have("finished_at", MAX_SECONDS, pause=0.5)
        connection.execute("VACUUM ANALYZE")
        processes = [server_pid(connection), *(each.pid for each in deployment.workers)]
        read_figures(url)
        connection.execute("SELECT pg_stat_statements_reset()")
        before = [cpu_seconds(each) for each in processes]
        if case.is_trickle:
            trickle(deployment, senders, case)
        else:
            queue_apart(database, deployment.settings, case.transactions // case.lanes, project)
        deployment.wait_until_all_have("finished_at", MAX_SECONDS, pause=0.5)
        in_database, *of_workers = (cpu_seconds(each) - base for each, base in zip(processes, before, strict=True))
        calls = sum(count for name, count in read_figures(url)["requests"].items() if name != "batches")
        (statements,) = connection.execute(f"SELECT coalesce(sum(calls), 0)::int {OWN_STATEMENTS}").fetchone()
        if verbose:
            for each in connection.execute(
                f"SELECT calls, round(total_exec_time), query {OWN_STATEMENTS} ORDER BY 2 DESC"
            ):
                print(*each)
        seconds, confirmed = connection.execute(SPAN, [case.lanes]).fetchone()
        memory = sum(resident_kilobytes(each.pid) for each in deployment.workers)
    if confirmed != case.transactions:
        raise Failed(f"{case.name}: {confirmed} confirmed")
    each = [1000 * sum(of_workers), 1000 * in_database, calls, statements]
    return Cost(*(value / confirmed for value in each), confirmed / seconds, memory / 1024)


def trickle(deployment: Deployment, senders: Senders, case: Case) -> None:
    started = time.monotonic()
    for number in range(case.transactions):
        time.sleep(max(0, started + number / TRICKLE_RATE - time.monotonic()))
        send(deployment, senders, number % case.lanes)


def read_figures(url: str) -> dict[str, Any]:
    with urlopen(f"{url}figures") as answer:
        found: dict[str, Any] = orjson.loads(answer.read())
    return found


def cases(fast: bool) -> list[Case]:
    bursts, seconds = (FAST_BURSTS, FAST_TRICKLE_SECONDS) if fast else (BURSTS, TRICKLE_SECONDS)
    workers = (1,) if fast else (1, 2)
    found = [Case(lanes, count, each) for lanes, count in bursts.items() for each in workers]
    return [*found, *(Case(TRICKLE_LANES, TRICKLE_RATE * seconds, each, is_trickle=True) for each in workers)]


def rows(bench: Bench) -> list[Row]:
    checkouts = {"": PROJECT} | ({"baseline ": Path(BASELINE)} if BASELINE else {})
    found = []
    with servers.postgresql(preload="pg_stat_statements") as server:
        for case in cases(bench.fast):
            costs = {name: measure(server, bench, case, project) for name, project in checkouts.items()}
            found.append(row(case, costs))
    return found


def row(case: Case, costs: dict[str, Cost]) -> Row:
    beside = {
        f"{name}{figure}": round(value, 2) for name, cost in costs.items() for figure, value in vars(cost).items()
    }
    bound = MAX_TRICKLE_MS if case.is_trickle else MAX_BURST_MS
    return Row(case.name, round(costs[""].worker_ms, 1), "ms CPU each", "of the workers", at_most=bound, beside=beside)


if __name__ == "__main__":
    # One case: `python -m benchmarks.sending.cost 10 1000 [trickle]`.
    import tempfile

    with tempfile.TemporaryDirectory() as folder, servers.postgresql(preload="pg_stat_statements") as server:
        case = Case(int(sys.argv[1]), int(sys.argv[2]), is_trickle="trickle" in sys.argv)
        chosen = Bench(True, server, Path(folder), "", "")
        print(measure(server, chosen, case, Path(BASELINE or PROJECT), verbose=True))
