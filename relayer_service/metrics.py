"""What Prometheus reads of the task queue and of periodic work."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from relayer_service.background.tasks import periodic_intervals, queue_depth
from relayer_service.models import PeriodicRun
from relayer_service.observability.metrics import shared
from relayer_service.observability.probes import ProbeFailed


class QueueCollector(Collector):
    """The task queue, of which every process finds the same."""

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("relayer_task_queue_depth", "Tasks that wait, by kind.", labels=["kind"])
        try:
            depth = queue_depth()
        except Exception as error:
            # Each kind of queue has errors of its own.
            raise ProbeFailed(f"the task queue cannot be read ({type(error).__name__})") from error
        for kind, count in depth.items():
            family.add_metric([kind], count)
        yield family


class PeriodicCollector(Collector):
    """The last run of each piece of periodic work, whichever worker had it."""

    def collect(self) -> Iterable[Metric]:
        runs = {run.name: run for run in PeriodicRun.objects.all()}
        intervals = {name: seconds for name, seconds in periodic_intervals().items() if name in runs}
        series: list[tuple[str, str, Mapping[str, float]]] = [
            ("interval_seconds", "How often it runs.", intervals),
            (
                "last_run_timestamp_seconds",
                "When it last began.",
                {name: timestamp(runs[name].started_at) for name in intervals},
            ),
            (
                "last_success_timestamp_seconds",
                "When it last ended well; 0 if it never has.",
                {name: timestamp(runs[name].finished_at) for name in intervals},
            ),
            ("last_duration_seconds", "How long that took.", {name: runs[name].seconds or 0 for name in intervals}),
            ("failed", "Whether the newest run failed.", {name: runs[name].failed for name in intervals}),
        ]
        for name, text, values in series:
            family = GaugeMetricFamily(f"relayer_periodic_{name}", f"Periodic work: {text}", labels=["task"])
            for task, value in values.items():
                family.add_metric([task], value)
            yield family


def timestamp(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


shared.register(QueueCollector())
shared.register(PeriodicCollector())
