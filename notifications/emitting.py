"""Emitting events: their deliveries are created, and workers are told to send them.

A change that is rolled back sends nothing; one that is committed is sent even if the push to the workers is lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from notifications.catalogue import Data, Event
from notifications.delivery.alerts import MAX_TOLD, working_targets
from notifications.delivery.creating import create_deliveries
from notifications.models import Delivery, Notification
from notifications.tasks import deliver
from relayer_service.background.tasks import push

# Tasks that one change queues: each takes a moment, which staff wait for.
MAX_WOKEN = 100


def emit(event: Event[Data], notification: Notification, data: Data) -> Delivery | None:
    """Emit an event to a webhook as part of the current transaction; return None for one that is disabled."""
    created = create_deliveries(event, [notification], data)
    wake(delivery.notification_id for delivery in created)
    return created[0] if created else None


def emit_to_all(event: Event[Data], data: Data) -> None:
    """Emit an event that is not about one relayer to all webhooks that work."""
    created = create_deliveries(event, working_targets()[:MAX_TOLD], data)
    wake(delivery.notification_id for delivery in created)


def wake(targets: Iterable[int]) -> None:
    """Push a task for each webhook, so that its deliveries are sent once the current transaction is committed.

    Of very many the sweep finds the others, a moment later.
    """
    for pk in list(dict.fromkeys(targets))[:MAX_WOKEN]:
        push(deliver, pk)
