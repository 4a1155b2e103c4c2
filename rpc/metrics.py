"""What Prometheus reads of JSON-RPC calls and of fee tokens."""

import logging
from collections.abc import Iterable

from django.db import DatabaseError
from django.db.models import Count, Min
from django.utils import timezone
from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from relayer_service.ops.metrics import shared
from rpc.models import PRICE_STATES, FeeToken

logger = logging.getLogger(__name__)

CALLS = Counter("rpc_calls_total", "JSON-RPC calls, by outcome: `ok` or an error's code.", ["method", "outcome"])
LATENCY = Histogram(
    "rpc_call_duration_seconds",
    "Time that a JSON-RPC method takes.",
    ["method"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)


def observe_call(method: str, outcome: str, seconds: float) -> None:
    """Count a call. The method is one of those that exist, or `unknown`: each makes series of its own."""
    CALLS.labels(method, outcome).inc()
    LATENCY.labels(method).observe(seconds)


class FeeTokenCollector(Collector):
    """Count fee tokens when it is asked for, as every process sees the same ones."""

    def collect(self) -> Iterable[Metric]:
        try:
            groups = FeeToken.objects.order_by().with_state().values_list("state").annotate(Count("pk"))
            counts = dict.fromkeys(PRICE_STATES, 0) | dict(groups)
            oldest = FeeToken.objects.filter(enabled=True).aggregate(oldest=Min("rated_at"))["oldest"]
        except DatabaseError:
            logger.exception("Fee tokens cannot be counted")
            return
        states = GaugeMetricFamily("fee_tokens", "Fee tokens, by the state of their price.", labels=["state"])
        for state, count in counts.items():
            states.add_metric([state.replace(" ", "_")], count)
        yield states
        seconds = (timezone.now() - oldest).total_seconds() if oldest else 0.0
        text = "Time since the last price of an enabled fee token was read, of the one that has the oldest."
        yield GaugeMetricFamily("fee_token_oldest_price_seconds", text, seconds)


shared.register(FeeTokenCollector())
