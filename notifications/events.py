"""The events for webhooks, and `emit`, which puts one into the outbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypedDict, TypeVar

import orjson
from django.conf import settings
from django.utils import timezone

from notifications.delivery.schedule import next_attempt
from notifications.models import Delivery, Notification
from notifications.tasks import deliver
from relayer_service.ops.tasks import push


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


class NotificationData(TypedDict):
    notification_id: str


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
NOTIFICATION_TEST = Event("notification.test", NotificationData, "Staff try whether a webhook arrives.")

EVENTS = {
    event.name: event
    for event in (RELAYER_DISABLED, RELAYER_ENABLED, RELAYER_PAUSED, RELAYER_RESUMED, NOTIFICATION_TEST)
}


def emit(event: Event[Data], notification: Notification, data: Data) -> Delivery:
    """Put an event for a webhook into the outbox, as part of the current transaction, and return its delivery.

    A change that is rolled back sends nothing; one that is committed is sent even if the push to the workers is lost.
    """
    now = timezone.now()
    due_at = next_attempt(settings.WEBHOOK_SCHEDULE, settings.WEBHOOK_JITTER_PERCENT, 0, now, retry_after=None)
    body = {"type": event.name, "timestamp": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "data": data}
    delivery = Delivery.objects.create(
        notification=notification, event=event.name, body=orjson.dumps(body), created_at=now, due_at=due_at
    )
    push(deliver, notification.pk)
    return delivery
