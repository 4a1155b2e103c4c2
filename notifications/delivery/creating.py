"""New deliveries: events are put into the outbox as part of the current transaction, and sent once it is committed.

The caller wakes the sender of their targets.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import orjson
from django.conf import settings

from notifications.delivery.attempts import next_attempt
from notifications.delivery.counts import count_skipped
from notifications.events import Data, Event
from notifications.models import Delivery, Notification, new_message_id
from relayer_service.observability import logs, tracing
from relayer_service.storage.clock import database_now, timestamp
from relayer_service.storage.inserting import insert


def create_deliveries(event: Event[Data], notifications: Iterable[Notification], data: Data) -> list[Delivery]:
    """Create the deliveries of one event to several webhooks; for disabled ones it is skipped and counted."""
    now = database_now()
    due_at, body = next_attempt(settings.WEBHOOK_SCHEDULE, 0, now), encode_body(event, data, now)
    chosen = list(notifications)
    count_skipped({notification.pk: 1 for notification in chosen if not notification.enabled})
    deliveries = [
        Delivery(
            notification=notification,
            event=event.name,
            subject=event.subject(data),
            request_id=current_request_id(),
            traceparent=tracing.traceparent.get(),
            body=body,
            created_at=now,
            due_at=due_at,
        )
        for notification in chosen
        if notification.enabled
    ]
    return Delivery.objects.bulk_create(deliveries)


def create_each(
    event: Event[Data], each: Sequence[tuple[int, bool, Data]], traceparents: Sequence[str] | None = None
) -> set[int]:
    """Create the deliveries of one event with different data in one statement; return the keys of their webhooks.

    Each is the key of a webhook, whether it is enabled, and the data. All continue the current trace unless
    `traceparents` has that of each.
    """
    now = database_now()
    traces = [tracing.traceparent.get()] * len(each) if traceparents is None else traceparents
    queued = [(pk, data, trace) for (pk, enabled, data), trace in zip(each, traces, strict=True) if enabled]
    count_skipped(Counter(pk for pk, enabled, _ in each if not enabled))
    insert(
        Delivery,
        {
            "event": event.name,
            "state": Delivery.State.PENDING,
            "attempts_made": 0,
            "error": "",
            "request_id": current_request_id(),
            "created_at": now,
            "due_at": next_attempt(settings.WEBHOOK_SCHEDULE, 0, now),
        },
        {
            "identifier": [new_message_id() for _ in queued],
            "notification": [pk for pk, _, _ in queued],
            "body": [encode_body(event, data, now) for _, data, _ in queued],
            "subject": [event.subject(data) for _, data, _ in queued],
            "traceparent": [trace for _, _, trace in queued],
        },
    )
    return {pk for pk, _, _ in queued}


def current_request_id() -> str:
    """Return the id of the current request or task, or "" outside of one."""
    identifier = logs.request_id.get()
    return "" if identifier == "-" else identifier


def encode_body(event: Event[Data], data: Data, now: datetime) -> bytes:
    return orjson.dumps({"type": event.name, "timestamp": timestamp(now), "data": data})
