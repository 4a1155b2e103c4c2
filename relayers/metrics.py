"""What Prometheus reads of relayers."""

import logging
from collections.abc import Iterable

from django.db import DatabaseError
from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from relayer_service.ops.metrics import shared
from relayers.models import STATES, Relayer

logger = logging.getLogger(__name__)


class RelayerCollector(Collector):
    """Count relayers when it is asked for, as every process sees the same ones."""

    def collect(self) -> Iterable[Metric]:
        try:
            groups = Relayer.objects.order_by().with_state().values_list("state").annotate(Count("pk"))
            counts = dict.fromkeys(STATES, 0) | dict(groups)
            low = Relayer.objects.filter(balance_is_low=True).count()
        except DatabaseError:
            logger.exception("Relayers cannot be counted")
            return
        states = GaugeMetricFamily("relayers", "Relayers, by state.", labels=["state"])
        for state, count in counts.items():
            states.add_metric([state.replace(" ", "_")], count)
        yield states
        yield GaugeMetricFamily("relayers_low_balance", "Relayers below their least balance.", low)


shared.register(RelayerCollector())
