"""Prometheus metrics of relayers, their health checks and their nodes."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Min, QuerySet
from prometheus_client import Counter, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric

from chain.nodes import breakers
from relayer_service.database.clock import database_now
from relayer_service.observability.metrics import StateCollector, refreshers, shared
from relayer_service.storage.resources import first_state
from relayers.models import ACTIVE, CONDITIONS, PROBLEMS, Relayer, RelayerHealth

CHECKS = Counter("relayer_health_checks_total", "Completed health checks of relayers.")
LAST_CHECK = Gauge(
    "relayer_health_check_last_timestamp_seconds",
    "When this worker last completed a health check; 0 if never.",
    multiprocess_mode="livemostrecent",
)
NODES_PAUSED = Gauge(
    "relayer_nodes_paused", "Nodes that are paused by a circuit breaker of this process.", multiprocess_mode="livesum"
)
refreshers.append(lambda: NODES_PAUSED.set(breakers.paused_by_this_process()))


def observe_checks(count: int) -> None:
    CHECKS.inc(count)
    LAST_CHECK.set_to_current_time()


class RelayerCollector(StateCollector):
    name, text, states = "relayer_relayers", "Relayers by their worst state.", list(CONDITIONS)

    def rows(self) -> QuerySet[Any]:
        relayers: QuerySet[Any] = Relayer.objects.order_by().annotate(state=first_state(PROBLEMS, ACTIVE))
        return relayers

    def more(self) -> Iterable[Metric]:
        low = RelayerHealth.objects.filter(balance_is_low=True).count()
        yield GaugeMetricFamily("relayer_relayers_low_balance", "Relayers below their minimum balance.", low)
        now = database_now()
        due = RelayerHealth.objects.filter(due_at__lte=now).exclude(RelayerHealth.leased())
        oldest = due.aggregate(oldest=Min("due_at"))["oldest"]
        yield GaugeMetricFamily(
            "relayer_health_check_oldest_due_seconds",
            "How long the oldest due health check has been waiting; 0 if none is due.",
            (now - oldest).total_seconds() if oldest else 0,
        )


shared.register(RelayerCollector())
