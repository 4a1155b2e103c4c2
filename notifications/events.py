"""The events for webhooks, and `emit`, which puts one into the outbox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypedDict, TypeVar

import orjson
from django.conf import settings

from notifications import skipped
from notifications.delivery.schedule import next_attempt
from notifications.models import Delivery, Notification, new_message_id
from notifications.tasks import deliver
from relayer_service.background.tasks import push
from relayer_service.observability import logs
from relayer_service.storage.clock import database_now
from relayer_service.storage.inserting import insert

# Tasks that one change queues: each takes a moment, which staff wait for.
MAX_WOKEN = 100


class DisabledReason(TypedDict):
    type: str
    details: str


class RelayerData(TypedDict):
    relayer_id: str
    name: str
    network: str
    network_type: str


class RelayerDisabledData(RelayerData):
    disabled_reason: DisabledReason


class RelayerBalanceData(RelayerData):
    # In wei, as text: no JSON number is exact at this size everywhere.
    balance: str
    min_balance: str


class NotificationData(TypedDict):
    notification_id: str


class NotificationFailingData(NotificationData):
    failing_since: str
    error: str


class TokenExpiringData(TypedDict):
    name: str
    # The public part.
    token: str
    expires_at: str


Data = TypeVar("Data", bound=Mapping[str, object])


@dataclass(frozen=True)
class Event(Generic[Data]):
    name: str
    data: type[Data]
    description: str


RELAYER_DISABLED = Event("relayer.disabled", RelayerDisabledData, "The health check has disabled a relayer.")
RELAYER_ENABLED = Event("relayer.enabled", RelayerData, "The health check has enabled a relayer again.")
RELAYER_PAUSED = Event("relayer.paused", RelayerData, "Staff have paused a relayer.")
RELAYER_RESUMED = Event("relayer.resumed", RelayerData, "Staff have resumed a relayer.")
RELAYER_LOW_BALANCE = Event(
    "relayer.low_balance", RelayerBalanceData, "The balance of a relayer has fallen below its `min_balance`."
)
RELAYER_BALANCE_RECOVERED = Event(
    "relayer.balance_recovered",
    RelayerBalanceData,
    "The balance of a relayer is no longer below its `min_balance`, which is `0` where it was removed.",
)
NOTIFICATION_TEST = Event("notification.test", NotificationData, "Staff try whether a webhook arrives.")
NOTIFICATION_FAILING = Event(
    "notification.failing", NotificationFailingData, "Attempts at another webhook have begun to fail."
)
NOTIFICATION_GONE = Event(
    "notification.gone", NotificationData, "Another webhook has answered 410, and nothing more is sent to it."
)
TOKEN_EXPIRING = Event(
    "token.expiring", TokenExpiringData, "An access token expires soon: told 14 days before, and 3 days before."
)

EVENTS = {
    event.name: event
    for event in (
        RELAYER_DISABLED,
        RELAYER_ENABLED,
        RELAYER_PAUSED,
        RELAYER_RESUMED,
        RELAYER_LOW_BALANCE,
        RELAYER_BALANCE_RECOVERED,
        NOTIFICATION_TEST,
        NOTIFICATION_FAILING,
        NOTIFICATION_GONE,
        TOKEN_EXPIRING,
    )
}
# Events about one target that others get.
ABOUT_TARGETS = {NOTIFICATION_FAILING.name, NOTIFICATION_GONE.name}


def timestamp(moment: datetime) -> str:
    """Return a moment, which is in UTC, as bodies have it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def emit(event: Event[Data], notification: Notification, data: Data) -> Delivery | None:
    """Put an event for a webhook into the outbox, as part of the current transaction, and return its delivery.

    A change that is rolled back sends nothing; one that is committed is sent even if the push to the workers is lost.
    An event for a target that is disabled is skipped and counted, and there is no delivery.
    """
    made = emit_to([notification], event, data)
    return made[0] if made else None


def emit_to(notifications: Iterable[Notification], event: Event[Data], data: Data) -> list[Delivery]:
    """Put one event for several webhooks into the outbox, as `emit` does; return the deliveries."""
    now = database_now()
    due_at, body = first_attempt(now), body_of(event, data, now)
    deliveries = []
    for notification in notifications:
        if notification.enabled:
            deliveries.append(
                Delivery(
                    notification=notification,
                    event=event.name,
                    subject=subject_of(data),
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
    wake(delivery.notification_id for delivery in deliveries)
    return deliveries


def emit_each(event: Event[Data], each: Sequence[tuple[int, bool, Data]]) -> set[int]:
    """Put events of one kind into the outbox, as `emit` does, in one statement for all of them.

    Each is the key of a webhook, whether that is enabled, and the data. Returns the webhooks that the caller wakes.
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
            "subject": [subject_of(data) for _, data in queued],
        },
    )
    return {pk for pk, _ in queued}


def wake(targets: Iterable[int]) -> None:
    """Push a task for each webhook, so that its deliveries are sent once the current transaction is committed.

    Of very many the sweep finds the others, a moment later.
    """
    for pk in list(dict.fromkeys(targets))[:MAX_WOKEN]:
        push(deliver, pk)


def subject_of(data: Mapping[str, object]) -> str:
    """Return the id of the relayer that an event is about, or nothing for other events."""
    return str(data.get("relayer_id", ""))


def cause() -> str:
    """Return the id of the request or task in progress, or nothing outside of one."""
    identifier = logs.request_id.get()
    return "" if identifier == "-" else identifier


def first_attempt(now: datetime) -> datetime | None:
    return next_attempt(settings.WEBHOOK_SCHEDULE, 0, now)


def body_of(event: Event[Data], data: Data, now: datetime) -> bytes:
    return orjson.dumps({"type": event.name, "timestamp": timestamp(now), "data": data})
