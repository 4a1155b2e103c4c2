"""What Prometheus reads of relayers."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from prometheus_client.core import GaugeMetricFamily, Metric

from relayer_service.ops.metrics import StateCollector, shared
from relayer_service.storage.states import first_state
from relayers.models import ACTIVE, CONDITIONS, TROUBLES, Relayer


class RelayerCollector(StateCollector):
    name, text, states = "relayers", "Relayers, by the worst of their states.", list(CONDITIONS)

    def rows(self) -> QuerySet[Any]:
        relayers: QuerySet[Any] = Relayer.objects.order_by().annotate(state=first_state(TROUBLES, ACTIVE))
        return relayers

    def more(self) -> Iterable[Metric]:
        low = Relayer.objects.filter(balance_is_low=True).count()
        yield GaugeMetricFamily("relayers_low_balance", "Relayers below their minimum balance.", low)


shared.register(RelayerCollector())
