"""New deliveries: events are put into the outbox as part of the current transaction, and sent once it is committed.

The caller wakes the sender of their targets.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

import orjson
from django.conf import settings
from django.db.models import QuerySet

from notifications.delivery.attempts import next_attempt
from notifications.delivery.counts import count_skipped
from notifications.events import Data, Event
from notifications.models import Delivery, Notification, new_message_id
from notifications.subscriptions import is_chosen
from relayer_service.observability import logs, tracing
from relayer_service.storage.clock import database_now, timestamp
from relayer_service.storage.compiled import compiled
from relayer_service.storage.inserting import insert

# Events of one bulk action that each channel for people receives.
MAX_PER_CHANNEL = 20


@compiled()
def all_channels() -> QuerySet[Notification]:
    """Return the channels for people, which receive the chosen events of all relayers."""
    return Notification.objects.exclude(type=Notification.Type.WEBHOOK).order_by("sequence")


def channels(event: str) -> list[Notification]:
    return [row for row in all_channels() if is_chosen(row.events, event)]


def create_deliveries(event: Event[Data], notifications: Iterable[Notification], data: Data) -> list[Delivery]:
    """Create the deliveries of one event to those of several webhooks that chose it.

    For disabled ones it is skipped and counted.
    """
    now = database_now()
    due_at, body = next_attempt(settings.WEBHOOK_SCHEDULE, 0, now), encode_body(event, data, now)
    chosen = [notification for notification in notifications if is_chosen(notification.events, event.name)]
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


class Candidate(NamedTuple):
    """A webhook that may get an event, with its data and the trace that it continues."""

    pk: int
    enabled: bool
    # Those that the webhook chose.
    events: str
    data: Any
    traceparent: str


def create_each(event: Event[Data], candidates: Iterable[Candidate]) -> set[int]:
    """Create the deliveries of one event with different data in one statement; return the keys of their webhooks."""
    now = database_now()
    each = [candidate for candidate in candidates if is_chosen(candidate.events, event.name)]
    queued = [candidate for candidate in each if candidate.enabled]
    count_skipped(Counter(candidate.pk for candidate in each if not candidate.enabled))
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
            "notification": [candidate.pk for candidate in queued],
            "body": [encode_body(event, candidate.data, now) for candidate in queued],
            "subject": [event.subject(candidate.data) for candidate in queued],
            "traceparent": [candidate.traceparent for candidate in queued],
        },
    )
    return {candidate.pk for candidate in queued}


def create_for_channels(event: Event[Data], each: Iterable[Data]) -> set[int]:
    """Create the deliveries of a bulk action to the channels for people, at most MAX_PER_CHANNEL to each."""
    chosen = channels(event.name)
    if not chosen:
        return set()
    return {
        delivery.notification_id
        for data in islice(each, MAX_PER_CHANNEL)
        for delivery in create_deliveries(event, chosen, data)
    }


def current_request_id() -> str:
    """Return the id of the current request or task, or "" outside of one."""
    identifier = logs.request_id.get()
    return "" if identifier == "-" else identifier


def encode_body(event: Event[Data], data: Data, now: datetime) -> bytes:
    return orjson.dumps({"type": event.name, "timestamp": timestamp(now), "data": data})
