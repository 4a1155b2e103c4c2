"""Prometheus metrics of the task queue and of periodic work."""

from collections.abc import Callable, Iterable
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from relayer_service.background.tasks import periodic_intervals, queue_depth
from relayer_service.models import PeriodicRun
from relayer_service.observability.metrics import shared
from relayer_service.observability.probes import ProbeFailed


class QueueCollector(Collector):
    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("relayer_task_queue_depth", "Queued tasks, by kind.", labels=["kind"])
        try:
            depth = queue_depth()
        except Exception as error:
            # Each kind of queue has its own errors.
            raise ProbeFailed(f"the task queue cannot be read ({type(error).__name__})") from error
        for kind, count in depth.items():
            family.add_metric([kind], count)
        yield family


# The help text of each metric and its value, computed from a run and its interval.
PERIODIC: dict[str, tuple[str, Callable[[PeriodicRun, int], float]]] = {
    "interval_seconds": ("The interval between runs.", lambda run, interval: interval),
    "last_run_timestamp_seconds": ("The start of the last run.", lambda run, _: timestamp(run.started_at)),
    "last_success_timestamp_seconds": (
        "The end of the last successful run; 0 if there is none.",
        lambda run, _: timestamp(run.finished_at),
    ),
    "last_duration_seconds": ("The duration of the last successful run.", lambda run, _: run.seconds or 0),
    "failed": ("Whether the last run failed.", lambda run, _: run.failed),
}


class PeriodicCollector(Collector):
    def collect(self) -> Iterable[Metric]:
        runs = {run.name: run for run in PeriodicRun.objects.all()}
        intervals = periodic_intervals()
        for name, (text, value) in PERIODIC.items():
            family = GaugeMetricFamily(f"relayer_periodic_{name}", f"Periodic work: {text}", labels=["task"])
            for task, interval in intervals.items():
                if task in runs:
                    family.add_metric([task], value(runs[task], interval))
            yield family


def timestamp(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


shared.register(QueueCollector())
shared.register(PeriodicCollector())
