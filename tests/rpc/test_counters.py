"""Calls that are counted in memory, and written for all processes together."""

from __future__ import annotations

import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from relayer_service.background import counts
from relayer_service.observability import call_counts, metrics
from relayer_service.observability.call_counts import ALL_RELAYERS, DURATIONS, NODE, RELAYER, CallCount
from relayers.models import Relayer
from rpc import counters, tasks
from tests import processes
from tests.concurrency import PATIENCE_SECONDS, in_threads
from tests.notifications.clock import NOON, Clock, clock
from tests.relayer_service.observability.test_metrics import samples
from tests.relayers import factories
from tests.servers import free_port, wait_for_port

pytestmark = pytest.mark.both_engines

__all__ = ["clock"]

BAD_PARAMS = "-32602"


def rows(kind: str = RELAYER) -> list[tuple[Any, ...]]:
    """Return what is written: relayer, hours after noon, method, outcome, calls, milliseconds of the slowest."""
    found = CallCount.objects.filter(kind=kind).order_by("subject", "start", "method", "outcome")
    names = {str(pk): identifier for pk, identifier in Relayer.objects.values_list("pk", "identifier")}
    return [
        (names.get(subject, subject), (start - NOON) / timedelta(hours=1), *rest)
        for subject, start, *rest in found.values_list(
            "subject", "start", "method", "outcome", "calls", "slowest_milliseconds"
        )
    ]


@pytest.mark.django_db
def test_calls_are_written_by_hour_method_and_outcome(clock: Clock) -> None:
    one, two = factories.relayer(), factories.relayer(identifier="relayer-2")
    clock.forward(59 * 60 + 59.9)
    counters.count(one.pk, "feeEstimate", "ok", 0.2)
    counters.count(one.pk, "feeEstimate", "ok", 0.1)
    counters.count(one.pk, "feeEstimate", BAD_PARAMS, 0.003)
    counters.count(one.pk, "unknown", "-32601", 0.001)
    counters.count(two.pk, "feeEstimate", "ok", 1.5)
    clock.forward(0.1)
    counters.count(one.pk, "feeEstimate", "ok", 0.05)
    counters.flush()
    assert rows() == [
        ("relayer-1", 0, "feeEstimate", BAD_PARAMS, 1, 3),
        ("relayer-1", 0, "feeEstimate", "ok", 2, 200),
        ("relayer-1", 0, "unknown", "-32601", 1, 1),
        ("relayer-1", 1, "feeEstimate", "ok", 1, 50),
        ("relayer-2", 0, "feeEstimate", "ok", 1, 1500),
    ]
    assert rows(ALL_RELAYERS) == [
        ("", 0, "", "-32601", 1, 1),
        ("", 0, "", BAD_PARAMS, 1, 3),
        ("", 0, "", "ok", 3, 1500),
        ("", 1, "", "ok", 1, 50),
    ]


@pytest.mark.django_db
def test_what_is_written_is_added_to_what_is_there(clock: Clock) -> None:
    relayer = factories.relayer()
    for seconds in (0.1, 0.3, 0.2):
        counters.count(relayer.pk, "feeEstimate", "ok", seconds)
        counters.flush()
    counters.flush()
    assert rows() == [("relayer-1", 0, "feeEstimate", "ok", 3, 300)]
    one, every = CallCount.objects.values_list(*DURATIONS)
    assert one == every
    assert dict(zip(DURATIONS, one, strict=True)) == dict.fromkeys(DURATIONS, 0) | {
        "up_to_100_ms": 1,
        "up_to_250_ms": 1,
        "up_to_500_ms": 1,
    }


@pytest.mark.django_db
def test_counting_makes_no_query_and_writing_makes_one(
    clock: Clock, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    relayer = factories.relayer()
    with django_assert_num_queries(0):
        for _ in range(3):
            for outcome in ("ok", BAD_PARAMS):
                counters.count(relayer.pk, "feeEstimate", outcome, 0.1)
            clock.forward(3600)
    with django_assert_num_queries(1):
        counters.flush()
    with django_assert_num_queries(0):
        counters.flush()
    assert len(rows()) == 6


@pytest.mark.django_db
def test_the_counts_of_a_relayer_that_was_deleted_meanwhile_keep_back_no_others(clock: Clock) -> None:
    one, two = factories.relayer(), factories.relayer(identifier="relayer-2")
    counters.count(one.pk, "feeEstimate", "ok", 0.1)
    # Long names are cut to their columns.
    counters.count(two.pk, "m" * 65, "o" * 33, 0.2)
    deleted = str(one.pk)
    one.delete()
    counters.flush()
    assert sorted(rows()) == sorted(
        [(deleted, 0, "feeEstimate", "ok", 1, 100), ("relayer-2", 0, "m" * 64, "o" * 32, 1, 200)]
    )


class Failing:
    """Lets so many statements through to the database, and fails the rest."""

    def __init__(self, passing: int) -> None:
        self.passing = passing

    def __call__(self, execute: Any, *arguments: Any) -> Any:
        self.passing -= 1
        if self.passing < 0:
            raise OperationalError("the database is away")
        return execute(*arguments)


@pytest.mark.django_db
def test_what_cannot_be_written_is_kept_and_nothing_is_written_twice(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(counts, "BATCH_SIZE", 2)
    relayer = factories.relayer()
    for method in "abcde":
        counters.count(relayer.pk, method, "ok", 0.1)
    with connection.execute_wrapper(Failing(passing=1)):
        counters.flush()
    assert rows() == [("relayer-1", 0, method, "ok", 1, 100) for method in "ab"]
    assert caplog.messages == ["Cannot write the call counts; will retry"]
    counters.count(relayer.pk, "e", "ok", 0.2)
    counters.flush()
    assert rows() == [
        *(("relayer-1", 0, method, "ok", 1, 100) for method in "abcd"),
        ("relayer-1", 0, "e", "ok", 2, 200),
    ]


@pytest.mark.django_db
def test_of_too_much_that_cannot_be_written_the_oldest_is_dropped(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(counts, "MAX_ROWS", 3)
    relayer = factories.relayer()
    with connection.execute_wrapper(Failing(passing=0)):
        for _ in range(5):
            counters.count(relayer.pk, "feeEstimate", "ok", 0.1)
            counters.flush()
            clock.forward(3600)
    assert caplog.messages[-1] == "Dropped the oldest call counts, as they cannot be written: 1 rows"
    counters.flush()
    assert rows() == [("relayer-1", hour, "feeEstimate", "ok", 1, 100) for hour in (2, 3, 4)]


@pytest.mark.django_db(transaction=True)
def test_threads_that_count_while_others_write_lose_nothing(clock: Clock) -> None:
    relayer = factories.relayer()

    def count() -> None:
        for number in range(2000):
            counters.count(relayer.pk, "feeEstimate", "ok", 0.001 if number else 0.5)

    def write() -> None:
        for _ in range(20):
            counters.flush()

    in_threads(count, write, count, write)
    counters.flush()
    ((*_, calls, slowest),) = rows()
    assert (calls, slowest) == (4000, 500)


@pytest.mark.django_db(transaction=True)
def test_the_pool_has_its_connection_back_after_each_write(clock: Clock) -> None:
    relayer = factories.relayer()

    def holds_a_connection() -> bool:
        counters.count(relayer.pk, "feeEstimate", "ok", 0.1)
        counters.counter.flush_and_close()
        return connection.connection is not None

    # There is no pool on SQLite.
    assert in_threads(holds_a_connection) == [connection.vendor == "sqlite"]
    assert len(rows()) == 1


PREPARE = """
import os, signal, sys, time
from datetime import UTC, datetime
import django
django.setup()
from django.utils import timezone
timezone.now = lambda: datetime(2026, 1, 1, 12, tzinfo=UTC)
from relayer_service.background import counts
from relayer_service.models import CallCount
from rpc import counters
relayer_pk = int(os.environ["RELAYER"])
"""
COUNT_AND_END = """
counts.WRITE_SECONDS = 3600
child = os.fork()
for number in range(1000):
    # The other process counts the same in another order.
    method = "ab"[(number + bool(child)) % 2]
    counters.count(relayer_pk, method, "ok", 0.01)
    if number % 10 == 0:
        counters.flush()
sys.exit(child and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
COUNT_IN_A_FORK = """
counts.WRITE_SECONDS = 3600
counters.count(relayer_pk, "parent", "ok", 0.01)
# As threads would that are in the middle of it.
counters.counter._lock.acquire()
counters.counter._writing.acquire()
child = os.fork()
if child == 0:
    signal.alarm(120)
    counts.WRITE_SECONDS = 0.05
    counters.count(relayer_pk, "child", "ok", 0.01)
    while not CallCount.objects.exists():
        time.sleep(0.05)
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def run(program: str) -> None:
    """Run a program in a process of its own, on the test database and with a relayer."""
    environment = processes.environment(RELAYER=str(factories.relayer().pk))
    started = processes.start([sys.executable, "-W", "ignore", "-c", PREPARE + program], environment)
    assert started.wait(PATIENCE_SECONDS) == 0


@pytest.mark.django_db(transaction=True)
def test_processes_that_count_at_once_lose_nothing_and_write_the_rest_when_they_end() -> None:
    run(COUNT_AND_END)
    assert [row[2:5] for row in rows()] == [("a", "ok", 1000), ("b", "ok", 1000)]


@pytest.mark.django_db(transaction=True)
def test_a_forked_process_writes_by_itself_what_is_its_own() -> None:
    run(COUNT_IN_A_FORK)
    assert rows() == [("relayer-1", 0, "child", "ok", 1, 10)]


WEB = """
from relayer_service.server.rsgi import Application

counts.WRITE_SECONDS = 3600

def counting(environ, start_response):
    counters.count(relayer_pk, "feeEstimate", "ok", 0.01)
    start_response("204 No Content", [])
    return []

application = Application(counting)
"""


@pytest.mark.django_db(transaction=True)
def test_a_web_process_that_is_stopped_writes_its_counts(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(PREPARE + WEB)
    port = free_port()
    relayer = factories.relayer()
    environment = processes.environment(
        RELAYER=str(relayer.pk), HOST="127.0.0.1", PORT=str(port), PYTHONPATH=str(tmp_path)
    )
    command = [sys.executable, "-m", "relayer_service.server", "counting:application"]
    server = processes.start(command, environment)
    try:
        wait_for_port(port, process=server)
        for _ in range(3):
            urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_SECONDS).close()
        assert rows() == []
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_SECONDS) == 0
    finally:
        server.kill()
    assert rows() == [("relayer-1", 0, "feeEstimate", "ok", 3, 10)]


@pytest.mark.django_db
def test_counts_are_kept_for_31_days_and_deleted_a_few_at_a_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_counts, "BATCH_SIZE", 2)
    last = NOON - timedelta(days=31)
    for hours in (-800, -2, -1, 0, 1, 744):
        start = last + timedelta(hours=hours)
        CallCount.objects.create(kind=RELAYER, subject="1", start=start, method="feeEstimate", outcome="ok")
    CallCount.objects.create(kind=ALL_RELAYERS, start=last - timedelta(hours=1), outcome="ok")
    # Those of nodes are pruned by another task.
    CallCount.objects.create(kind=NODE, subject="1", start=last - timedelta(hours=1), outcome="ok")
    with CaptureQueriesContext(connection) as queries:
        tasks.prune_call_counts.call_local()
    kept = CallCount.objects.order_by("start").values_list("kind", "start")
    assert list(kept) == [
        (NODE, last - timedelta(hours=1)),
        (RELAYER, last),
        (RELAYER, last + timedelta(hours=1)),
        (RELAYER, NOON),
    ]
    # Two, two, and none.
    assert len([query for query in queries if 'DELETE FROM "relayer_service_callcount"' in query["sql"]]) == 3


@pytest.mark.django_db
def test_prometheus_reads_calls_by_method_and_outcome_and_how_long_they_took() -> None:
    def read() -> dict[str, float]:
        return samples(metrics.exposition().decode())

    before = read()
    counters.count(1, "feeEstimate", "ok", 0.2)
    counters.count(1, "feeEstimate", BAD_PARAMS, 0.001)
    changes = {
        name: value - before.get(name, 0) for name, value in read().items() if name.startswith("relayer_rpc_call")
    }
    expected = {
        "relayer_rpc_calls_total{method=feeEstimate,outcome=ok}": 1,
        f"relayer_rpc_calls_total{{method=feeEstimate,outcome={BAD_PARAMS}}}": 1,
        "relayer_rpc_call_duration_seconds_count{method=feeEstimate}": 2,
        "relayer_rpc_call_duration_seconds_bucket{le=0.1,method=feeEstimate}": 1,
        "relayer_rpc_call_duration_seconds_bucket{le=0.25,method=feeEstimate}": 2,
    }
    assert {name: changes[name] for name in expected} == expected
