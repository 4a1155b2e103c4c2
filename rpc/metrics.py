"""What Prometheus reads of JSON-RPC calls and of fee tokens."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Min, QuerySet
from django.utils import timezone
from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from relayer_service.observability.metrics import BUCKETS, StateCollector, shared
from rpc.models import PRICE_STATES, FeeToken

CALLS = Counter(
    "relayer_rpc_calls_total", "JSON-RPC calls, by outcome: `ok` or an error's code.", ["method", "outcome"]
)
LATENCY = Histogram(
    "relayer_rpc_call_duration_seconds",
    "Time that a JSON-RPC method takes.",
    ["method"],
    buckets=BUCKETS,
)


def observe_call(method: str, outcome: str, seconds: float) -> None:
    """Count a call. The method is a registered one or `unknown`, as each name makes a series of its own."""
    CALLS.labels(method, outcome).inc()
    LATENCY.labels(method).observe(seconds)


class FeeTokenCollector(StateCollector):
    name, text, states = "relayer_fee_tokens", "Fee tokens, by the state of their price.", PRICE_STATES

    def rows(self) -> QuerySet[Any]:
        return FeeToken.objects.order_by().with_state()

    def more(self) -> Iterable[Metric]:
        oldest = FeeToken.objects.filter(enabled=True).aggregate(oldest=Min("rated_at"))["oldest"]
        seconds = (timezone.now() - oldest).total_seconds() if oldest else 0.0
        text = "Time since the last price of an enabled fee token was read, of the one that has the oldest."
        yield GaugeMetricFamily("relayer_fee_token_oldest_price_seconds", text, seconds)


shared.register(FeeTokenCollector())
