"""What Prometheus reads of webhooks."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from notifications import skipped
from notifications.delivery import counts
from notifications.filters import TARGET_STATES
from notifications.models import Notification
from relayer_service.ops.metrics import StateCollector, shared
from relayer_service.storage.states import first_state

OK = "ok"
TROUBLES = {state: TARGET_STATES[state] for state in ("disabled", "gone", "failing")}


class WebhookCollector(StateCollector):
    name, text, states = "webhook_targets", "Webhook targets, by state.", [OK, *TROUBLES]

    def rows(self) -> QuerySet[Any]:
        return Notification.objects.order_by().annotate(state=first_state(TROUBLES, OK))

    def more(self) -> Iterable[Metric]:
        held = counts.held().count()
        pending = GaugeMetricFamily(
            "webhook_deliveries_pending",
            "Deliveries that are still to arrive; those of disabled targets are held.",
            labels=["held"],
        )
        pending.add_metric(["no"], counts.pending().count() - held)
        pending.add_metric(["yes"], held)
        yield pending
        yield GaugeMetricFamily(
            "webhook_deliveries_failed_last_day",
            "Deliveries that were given up in the last 24 hours.",
            counts.failed_in_a_day().count(),
        )
        oldest = GaugeMetricFamily(
            "webhook_oldest_due_seconds",
            "For how long the oldest delivery that is due has waited; 0 if none is. Those of failing targets have to.",
            labels=["target"],
        )
        for target, of_failing in ((OK, False), ("failing", True)):
            moment = counts.oldest_due(of_failing=of_failing)
            oldest.add_metric([target], (timezone.now() - moment).total_seconds() if moment else 0)
        yield oldest
        yield CounterMetricFamily(
            "webhook_events_skipped", "Events that were not queued, as their target was disabled.", skipped.total()
        )


shared.register(WebhookCollector())
