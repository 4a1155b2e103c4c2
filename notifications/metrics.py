"""Prometheus metrics of webhooks."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from notifications.delivery import counts
from notifications.models import TARGET_TROUBLES, Notification
from relayer_service.observability.metrics import StateCollector, shared
from relayer_service.storage.resources import first_state

OK = "ok"
TROUBLES = {state: TARGET_TROUBLES[state] for state in ("disabled", "gone", "failing")}


class WebhookCollector(StateCollector):
    name, text, states = "relayer_webhook_targets", "Webhooks, by state.", [OK, *TROUBLES]

    def rows(self) -> QuerySet[Any]:
        return Notification.objects.order_by().annotate(state=first_state(TROUBLES, OK))

    def more(self) -> Iterable[Metric]:
        held = counts.held().count()
        text = "Pending deliveries; those of disabled webhooks are held."
        pending = GaugeMetricFamily("relayer_webhook_deliveries_pending", text, labels=["held"])
        pending.add_metric(["no"], counts.pending().count() - held)
        pending.add_metric(["yes"], held)
        yield pending
        text, failed = "Deliveries that failed permanently in the last 24 hours.", counts.failed_in_a_day().count()
        yield GaugeMetricFamily("relayer_webhook_deliveries_failed_last_day", text, failed)
        text = "Wait of the oldest due delivery; 0 if none is due. Deliveries to failing webhooks wait by design."
        oldest = GaugeMetricFamily("relayer_webhook_oldest_due_seconds", text, labels=["target"])
        oldest.add_metric([OK], counts.longest_wait(of_failing=False).total_seconds())
        oldest.add_metric(["failing"], counts.longest_wait(of_failing=True).total_seconds())
        yield oldest
        text = "Events that were not queued because their webhook was disabled."
        yield CounterMetricFamily("relayer_webhook_events_skipped", text, counts.skipped_events())


shared.register(WebhookCollector())
