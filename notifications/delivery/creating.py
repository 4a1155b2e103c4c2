"""New deliveries: events are put into the outbox as part of the current transaction, and sent once it is committed.

The caller wakes the sender of their targets.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.conf import settings
from django.db.models import QuerySet

from notifications.delivery.counts import count_skipped
from notifications.delivery.posting import next_attempt
from notifications.events import Data, Event
from notifications.models import Delivery, Notification, new_message_id
from notifications.subscriptions import is_chosen
from relayer_service.database.clock import database_now, timestamp
from relayer_service.database.compiled import compiled
from relayer_service.database.inserting import insert
from relayer_service.observability import logs, tracing


@compiled()
def all_channels() -> QuerySet[Notification]:
    """Return the channels for people, which receive the chosen events of all relayers."""
    return Notification.objects.exclude(type=Notification.Type.WEBHOOK).order_by("sequence")


def create_deliveries(event: Event[Data], notifications: Iterable[Notification], data: Data) -> dict[int, str]:
    """Create the deliveries of one event to the webhooks that chose it; return their IDs by webhook."""
    chosen = [notification for notification in notifications if is_chosen(notification.events, event.name)]
    return _insert(event, [(notification, data, tracing.traceparent.get()) for notification in chosen])


class Webhook(NamedTuple):
    """The columns of a `Notification` that new deliveries depend on."""

    pk: int
    enabled: bool
    events: str


class Emission(NamedTuple):
    """An event about a relayer, for the webhook of the relayer and for the channels for people."""

    event: Event[Any]
    webhook: Notification | Webhook | None
    # Called only if the event was chosen.
    data: Callable[[], Any]
    traceparent: str


def create_each(emissions: Sequence[Emission], max_per_channel: int | None = None) -> set[int]:
    """Create the deliveries of events with one statement per kind of event; return the keys of their webhooks.

    Channels for people get the first `max_per_channel` emissions, or all.
    """
    people = all_channels() if emissions else []
    chosen: dict[Event[Any], list[tuple[Notification | Webhook, Any, str]]] = defaultdict(list)
    for number, (event, webhook, data, traceparent) in enumerate(emissions):
        own = [] if webhook is None else [webhook]
        others = people if max_per_channel is None or number < max_per_channel else []
        if targets := [target for target in (*own, *others) if is_chosen(target.events, event.name)]:
            found = data()
            chosen[event] += [(target, found, traceparent) for target in targets]
    return {pk for event, each in chosen.items() for pk in _insert(event, each)}


def _insert(event: Event[Any], each: Sequence[tuple[Notification | Webhook, Any, str]]) -> dict[int, str]:
    """Insert the deliveries of one event in one statement; for disabled webhooks, it is skipped and counted."""
    if not each:
        return {}
    now = database_now()
    count_skipped(Counter(target.pk for target, _, _ in each if not target.enabled))
    queued = [(target.pk, data, traceparent) for target, data, traceparent in each if target.enabled]
    identifiers = [new_message_id() for _ in queued]
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
            "identifier": identifiers,
            "notification": [pk for pk, _, _ in queued],
            "body": [encode_body(event, data, now) for _, data, _ in queued],
            "subject": [event.subject(data) for _, data, _ in queued],
            "traceparent": [traceparent for _, _, traceparent in queued],
        },
    )
    return {pk: identifier for (pk, _, _), identifier in zip(queued, identifiers, strict=True)}


def current_request_id() -> str:
    """Return the id of the current request or task, or "" outside of one."""
    identifier = logs.request_id.get()
    return "" if identifier == "-" else identifier


def encode_body(event: Event[Data], data: Data, now: datetime) -> bytes:
    return orjson.dumps({"type": event.name, "timestamp": timestamp(now), "data": data})
