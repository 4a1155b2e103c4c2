"""New deliveries: events are put into the outbox as part of the current transaction, and sent once it is committed.

Whoever creates deliveries wakes the sender of their targets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import orjson
from django.conf import settings

from notifications import skipped
from notifications.catalogue import Data, Event
from notifications.delivery.schedule import next_attempt
from notifications.models import Delivery, Notification, new_message_id
from relayer_service.observability import logs
from relayer_service.storage.clock import database_now, timestamp
from relayer_service.storage.inserting import insert


def create_deliveries(event: Event[Data], notifications: Iterable[Notification], data: Data) -> list[Delivery]:
    """Create the deliveries of one event to several webhooks; for disabled ones it is skipped and counted."""
    now = database_now()
    due_at, body = first_attempt(now), body_of(event, data, now)
    deliveries = []
    for notification in notifications:
        if notification.enabled:
            deliveries.append(
                Delivery(
                    notification=notification,
                    event=event.name,
                    subject=event.subject(data),
                    request_id=cause(),
                    body=body,
                    created_at=now,
                    due_at=due_at,
                )
            )
        else:
            skipped.count({notification.pk: 1})
    if deliveries:
        Delivery.objects.bulk_create(deliveries)
    return deliveries


def create_each(event: Event[Data], each: Sequence[tuple[int, bool, Data]]) -> set[int]:
    """Create the deliveries of events of one kind in one statement; return the keys of the webhooks that get any.

    Each is the key of a webhook, whether that is enabled, and the data.
    """
    now = database_now()
    queued = [(pk, data) for pk, enabled, data in each if enabled]
    skipped.count(Counter(pk for pk, enabled, _ in each if not enabled))
    insert(
        Delivery,
        {
            "event": event.name,
            "state": Delivery.State.PENDING,
            "attempts_made": 0,
            "error": "",
            "request_id": cause(),
            "created_at": now,
            "due_at": first_attempt(now),
        },
        {
            "identifier": [new_message_id() for _ in queued],
            "notification": [pk for pk, _ in queued],
            "body": [body_of(event, data, now) for _, data in queued],
            "subject": [event.subject(data) for _, data in queued],
        },
    )
    return {pk for pk, _ in queued}


def cause() -> str:
    """Return the id of the request or task in progress, or nothing outside of one."""
    identifier = logs.request_id.get()
    return "" if identifier == "-" else identifier


def first_attempt(now: datetime) -> datetime | None:
    return next_attempt(settings.WEBHOOK_SCHEDULE, settings.WEBHOOK_JITTER_PERCENT, 0, now, retry_after=None)


def body_of(event: Event[Data], data: Data, now: datetime) -> bytes:
    return orjson.dumps({"type": event.name, "timestamp": timestamp(now), "data": data})
