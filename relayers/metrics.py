"""What Prometheus reads of relayers."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from prometheus_client.core import GaugeMetricFamily, Metric

from relayer_service.ops.metrics import StateCollector, shared
from relayers.models import STATES, Relayer


class RelayerCollector(StateCollector):
    name, text, states = "relayers", "Relayers, by state.", STATES

    def rows(self) -> QuerySet[Any]:
        return Relayer.objects.order_by().with_state()

    def more(self) -> Iterable[Metric]:
        low = Relayer.objects.filter(balance_is_low=True).count()
        yield GaugeMetricFamily("relayers_low_balance", "Relayers below their least balance.", low)


shared.register(RelayerCollector())
