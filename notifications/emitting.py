"""Emitting events: deliveries are created in the current transaction, and workers are woken to send them.

A change that is rolled back sends nothing; one that is committed is sent even if the push to the workers is lost.
"""

from collections.abc import Iterable, Sequence

from django.db import transaction

from notifications.delivery.alerts import MAX_ALERTED, working_targets
from notifications.delivery.creating import Emission, create_deliveries, create_each
from notifications.events import NOTIFICATION_TEST, Data, Event, NotificationData
from notifications.models import Delivery, Notification
from notifications.tasks import deliver
from relayer_service.audit.recording import acted, changed, record
from relayer_service.background.tasks import push
from relayer_service.observability import tracing

# Tasks that one change queues. Each takes a moment, which staff wait for.
MAX_WOKEN = 100


def emit(event: Event[Data], notification: Notification | None, data: Data) -> None:
    """Emit an event about a relayer as part of the current transaction."""
    emit_each([Emission(event, notification, lambda: data, tracing.traceparent.get())])


def emit_each(emissions: Sequence[Emission]) -> None:
    """Emit events about relayers as part of the current transaction, with one statement per kind of event."""
    wake(create_each(emissions))


def emit_to_all(event: Event[Data], data: Data) -> None:
    """Emit an event about the service to the webhooks that chose it."""
    wake(create_deliveries(event, working_targets(event.name)[:MAX_ALERTED], data))


def send_test_event(notification: Notification) -> Delivery | None:
    """Send a test event, even to a target that is gone; return None if the target is disabled."""
    if not notification.enabled:
        return None
    with transaction.atomic():
        data = NotificationData(notification_id=notification.identifier)
        created = create_deliveries(NOTIFICATION_TEST, [notification], data)
        wake(created)
        sent = notification.deliveries.get(identifier=created[notification.pk])
        text = f"Sent a test event, {sent}."
        gone = Notification.objects.filter(pk=notification.pk, gone_at__isnull=False)
        if gone.update(gone_at=None):
            record([changed(notification, {"gone_at": notification.gone_at}, {"gone_at": None}, text)])
        else:
            record([acted(notification, text)])
    return sent


def wake(targets: Iterable[int]) -> None:
    """Push a task for each webhook, run once the current transaction is committed; the sweep finds those left out."""
    for pk in list(dict.fromkeys(targets))[:MAX_WOKEN]:
        push(deliver, pk)
