"""Metrics of JSON-RPC calls and of fee tokens."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Min, QuerySet
from django.utils import timezone
from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from relayer_service.observability.metrics import BUCKETS, StateCollector, shared
from rpc.models import FeeToken
from rpc.models.fee_tokens import PRICE_STATES

CALLS = Counter(
    "relayer_rpc_calls_total", "JSON-RPC calls, by outcome: `ok` or an error's code.", ["method", "outcome"]
)
LATENCY = Histogram("relayer_rpc_call_duration_seconds", "Duration of JSON-RPC calls.", ["method"], buckets=BUCKETS)


class FeeTokenCollector(StateCollector):
    name, text, states = "relayer_fee_tokens", "Fee tokens, by the state of their price.", PRICE_STATES

    def rows(self) -> QuerySet[Any]:
        return FeeToken.objects.order_by().with_state()

    def more(self) -> Iterable[Metric]:
        oldest = FeeToken.objects.filter(enabled=True).aggregate(oldest=Min("rated_at"))["oldest"]
        seconds = (timezone.now() - oldest).total_seconds() if oldest else 0.0
        text = "Age of the oldest price of an enabled fee token."
        yield GaugeMetricFamily("relayer_fee_token_oldest_price_seconds", text, seconds)


shared.register(FeeTokenCollector())
