"""Metrics for Prometheus, named `relayer_...`: requests, tasks, pools, processes and apps."""

import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from django.db import connection
from django.db.models import Count, QuerySet
from django.utils.module_loading import autodiscover_modules
from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import REGISTRY, Collector

from relayer_service import __version__
from relayer_service.observability.probes import Probes
from relayer_service.processes import is_running

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Deadline of a scrape for reads from the database and the queue.
READ_SECONDS = 1.5

# Several processes share their metrics here. The Prometheus client fails if the folder is missing.
SHARED_FOLDER = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
if SHARED_FOLDER:
    Path(SHARED_FOLDER).mkdir(parents=True, exist_ok=True)

# Creation times would double the number of series.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the client has no types there

METHODS = {"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"}
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

REQUESTS = Counter("relayer_http_requests_total", "Requests answered.", ["method", "route", "status"])
LATENCY = Histogram(
    "relayer_http_request_duration_seconds",
    "Time from the arrival of a request to its response.",
    ["method", "route"],
    buckets=BUCKETS,
)
TASK_SECONDS = Histogram(
    "relayer_task_duration_seconds",
    "Duration of a task, including periodic work that another worker has already claimed.",
    ["task"],
    buckets=(*BUCKETS, 30, 60, 300),
)
TASK_FAILURES = Counter("relayer_task_failures_total", "Tasks that raised an exception.", ["task"])
WORKER_POLLED = Gauge(
    "relayer_worker_last_poll_timestamp_seconds",
    "When a thread of this worker last polled for a task.",
    multiprocess_mode="livemostrecent",
)
POOL = Gauge(
    "relayer_database_pool_connections",
    "Pooled database connections, by state.",
    ["state"],
    multiprocess_mode="livesum",
)
POOL_SIZE = Gauge(
    "relayer_thread_pool_size", "Maximum threads of a pool in one process.", ["pool"], multiprocess_mode="max"
)
POOL_IN_USE = Gauge("relayer_thread_pool_in_use", "Busy threads of a pool.", ["pool"], multiprocess_mode="livesum")

_refreshed_at = 0.0


def observe_request(method: str, route: str, status: int, seconds: float) -> None:
    method = method if method in METHODS else "other"
    REQUESTS.labels(method, route, str(status)).inc()
    LATENCY.labels(method, route).observe(seconds)
    refresh()


def observe_task(name: str, seconds: float, *, failed: bool) -> None:
    TASK_SECONDS.labels(name).observe(seconds)
    if failed:
        TASK_FAILURES.labels(name).inc()
    refresh()


def refresh() -> None:
    global _refreshed_at
    now = time.monotonic()
    if now - _refreshed_at >= 1:
        _refreshed_at = now
        for refresher in refreshers:
            refresher()


def _observe_pool() -> None:
    if pool := getattr(connection, "pool", None):
        stats = pool.get_stats()
        POOL.labels("open").set(stats["pool_size"])
        POOL.labels("idle").set(stats["pool_available"])
        POOL.labels("waiting").set(stats.get("requests_waiting", 0))


# Functions that set the gauges of this process. They run at most once a second during work, as the scrape may reach
# another process.
refreshers: list[Callable[[], None]] = [_observe_pool]


class ProcessesCollector(Collector):
    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for pid in running_processes():
            for metric in ProcessCollector("relayer", pid=partial(int, pid), registry=None).collect():
                family = families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                for sample in metric.samples:
                    family.add_sample(sample.name, {"pid": str(pid)}, sample.value)
        return families.values()


# Replaces the client's own collectors, which have no prefix and do not support several processes.
local = CollectorRegistry()
Info("relayer_build", "The running release.", registry=local).info(
    {"version": __version__, "python": platform.python_version()}
)
local.register(ProcessesCollector())
for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
    REGISTRY.unregister(collector)


class StateCollector(Collector):
    name: str
    text: str
    states: Sequence[str]

    def rows(self) -> QuerySet[Any]:
        """Return the rows, each annotated with its `state`."""
        raise NotImplementedError

    def more(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        counts = dict.fromkeys(self.states, 0) | dict(self.rows().values_list("state").annotate(Count("pk")))
        family = GaugeMetricFamily(self.name, self.text, labels=["state"])
        for state, count in counts.items():
            family.add_metric([state.replace(" ", "_")], count)
        yield family
        yield from self.more()


class SharedCollectors(Collector):
    """Concurrent collectors of state that all processes share. A scrape omits those that fail or time out."""

    def __init__(self) -> None:
        self._collectors: dict[str, Collector] = {}
        self.reads: Probes[list[Metric]] = Probes("The scrape by")

    def register(self, collector: Collector) -> None:
        self._collectors[type(collector).__name__] = collector

    def collect(self) -> Iterable[Metric]:
        reads = {name: partial(_collect, collector) for name, collector in self._collectors.items()}
        for families in self.reads.run(reads, READ_SECONDS).values():
            yield from families


def _collect(collector: Collector) -> list[Metric]:
    return list(collector.collect())


# Apps register theirs in their `metrics` module.
shared = SharedCollectors()


def sharing_processes(files: str) -> set[int]:
    """Return the IDs of the processes that share metrics, running or not, by the names of these files."""
    return {int(file.stem.rpartition("_")[2]) for file in Path(SHARED_FOLDER).glob(files)} if SHARED_FOLDER else set()


def running_processes() -> list[int]:
    return sorted(filter(is_running, sharing_processes("*_*.db") | {os.getpid()}))


def forget_ended_processes() -> None:
    """Remove the gauges of processes that have ended, such as their busy threads."""
    for pid in sharing_processes("gauge_live*_*.db"):
        if not is_running(pid):
            mark_process_dead(pid)  # type: ignore[no-untyped-call]  # the client has no types there


def own_exposition() -> bytes:
    """Return the metrics of this process and of those that share them with it."""
    autodiscover_modules("metrics")
    refresh()
    registry: Any = REGISTRY
    if SHARED_FOLDER:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the client has no types there
    return generate_latest(registry) + generate_latest(local)


def exposition() -> bytes:
    """Return `own_exposition` and the metrics of shared state."""
    registry: Any = shared
    return own_exposition() + generate_latest(registry)
