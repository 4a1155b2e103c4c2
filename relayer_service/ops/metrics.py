"""Metrics for Prometheus: requests, the database pool, thread pools, the task queue, and what the apps add."""

import logging
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from django.db import DatabaseError, connection
from django.db.models import Count, QuerySet
from django.utils.module_loading import autodiscover_modules
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import REGISTRY, Collector

from relayer_service.ops.processes import is_running

logger = logging.getLogger(__name__)

# Where several processes share their metrics; the client fails if the folder is missing.
SHARED_FOLDER = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
if SHARED_FOLDER:
    Path(SHARED_FOLDER).mkdir(parents=True, exist_ok=True)

METHODS = {"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"}

REQUESTS = Counter("http_requests_total", "Requests answered.", ["method", "route", "status"])
LATENCY = Histogram(
    "http_request_duration_seconds",
    "Time from a request's arrival to its answer.",
    ["method", "route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
POOL = Gauge(
    "database_pool_connections",
    "Database connections of this service's pools, by state.",
    ["state"],
    multiprocess_mode="livesum",
)
POOL_SIZE = Gauge(
    "thread_pool_size", "Threads that a pool of one process may have.", ["pool"], multiprocess_mode="max"
)
POOL_IN_USE = Gauge("thread_pool_in_use", "Threads of a pool that work.", ["pool"], multiprocess_mode="livesum")

_pool_observed_at = 0.0


def observe_request(method: str, route: str, status: int, seconds: float) -> None:
    method = method if method in METHODS else "other"
    REQUESTS.labels(method, route, str(status)).inc()
    LATENCY.labels(method, route).observe(seconds)
    _observe_pool()


def _observe_pool() -> None:
    """Record the state of the pool, once a second: another process may be the one that is scraped."""
    global _pool_observed_at
    now = time.monotonic()
    pool = getattr(connection, "pool", None)
    if pool is None or now - _pool_observed_at < 1:
        return
    _pool_observed_at = now
    stats = pool.get_stats()
    POOL.labels("open").set(stats["pool_size"])
    POOL.labels("idle").set(stats["pool_available"])
    POOL.labels("waiting").set(stats.get("requests_waiting", 0))


class QueueCollector(Collector):
    """Read the task queue at each scrape: every process sees the same one."""

    def collect(self) -> Iterable[Metric]:
        # Imported here, as tasks need models, and this module is used without them.
        from relayer_service.ops.tasks import queue_depth

        depth = queue_depth()
        if depth is None:
            return
        family = GaugeMetricFamily("task_queue_depth", "Tasks that wait, by kind.", labels=["kind"])
        for kind, count in depth.items():
            family.add_metric([kind], count)
        yield family


class StateCollector(Collector):
    """Count the rows of a table by their `state` at each scrape: every process sees the same ones."""

    name: str
    text: str
    states: Sequence[str]

    def rows(self) -> QuerySet[Any]:
        """Return the rows, each annotated with its `state`."""
        raise NotImplementedError

    def more(self) -> Iterable[Metric]:
        """Return the other metrics of the same rows."""
        return []

    def collect(self) -> Iterable[Metric]:
        try:
            counts = dict.fromkeys(self.states, 0) | dict(self.rows().values_list("state").annotate(Count("pk")))
            more = list(self.more())
        except DatabaseError:
            logger.exception("%s cannot be counted", self.name.replace("_", " ").capitalize())
            return
        family = GaugeMetricFamily(self.name, self.text, labels=["state"])
        for state, count in counts.items():
            family.add_metric([state.replace(" ", "_")], count)
        yield family
        yield from more


# Read from what all processes share, so that any of them can be scraped. The `metrics` module of an app adds its own.
shared = CollectorRegistry()
shared.register(QueueCollector())


def forget_ended_processes() -> None:
    """Remove what processes that have ended said of themselves, such as the threads that they had in use."""
    for file in Path(SHARED_FOLDER).glob("gauge_live*_*.db") if SHARED_FOLDER else ():
        pid = int(file.stem.rpartition("_")[2])
        if not is_running(pid):
            mark_process_dead(pid)  # type: ignore[no-untyped-call]  # the client has no types there


def exposition() -> bytes:
    autodiscover_modules("metrics")
    registry: Any = REGISTRY
    if SHARED_FOLDER:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the client has no types there
    return generate_latest(registry) + generate_latest(shared)
