"""Targets and deliveries with fixed values, in memory and in the database."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from django.utils import timezone

from notifications import subscriptions
from notifications.delivery import posting
from notifications.delivery.creating import create_deliveries
from notifications.delivery.outbox import OutboxBatch
from notifications.emitting import wake
from notifications.events import NOTIFICATION_TEST, NotificationData
from notifications.models import Delivery, Notification

BODY = b'{"type":"notification.test","timestamp":"2026-01-01T12:00:00.000000Z","data":{"notification_id":"hook"}}'
URL = "https://hooks.example.com/hook"


def make_notification(
    url: str = URL, signing_key: str | None = None, identifier: str = "hook", events: str = subscriptions.DEFAULT
) -> Notification:
    return Notification(identifier=identifier, url=url, signing_key=signing_key, events=events)


def make_delivery(url: str = URL, signing_key: str | None = None, body: bytes = BODY) -> Delivery:
    """A delivery that no database knows: enough to send it once."""
    notification = make_notification(url, signing_key)
    return Delivery(identifier="msg_1", notification=notification, event="notification.test", body=body)


def send(*deliveries: Delivery) -> list[posting.Outcome]:
    """Try deliveries once, one after the other, in a session of their own."""

    async def run() -> list[posting.Outcome]:
        async with posting.open_session() as session:
            return [await posting.send(session, delivery) for delivery in deliveries]

    return asyncio.run(run())


def attempt(url: str, **kwargs: Any) -> posting.Outcome:
    (outcome,) = send(make_delivery(url, **kwargs))
    return outcome


def create_notification(**kwargs: Any) -> Notification:
    notification = make_notification(**kwargs)
    notification.save()
    return notification


def emit_test(notification: Notification) -> Delivery:
    """Return a delivery to an enabled target."""
    data = NotificationData(notification_id=notification.identifier)
    created = create_deliveries(NOTIFICATION_TEST, [notification], data)
    wake(created)
    return notification.deliveries.get(identifier=created[notification.pk])


def outcome(delivery: Delivery, response_code: int | None = 200, **kwargs: Any) -> posting.Outcome:
    """What an attempt came to that began just now and took 12 ms."""
    error = "" if response_code == 200 else f"Returned HTTP {response_code}."
    values = {"milliseconds": 12, "response_code": response_code, "error": error} | kwargs
    return posting.Outcome(delivery, timezone.now(), **values)


def exchange(
    notification: Notification,
    *outcomes: posting.Outcome,
    lease: uuid.UUID | None = None,
    room: int = 64,
    include_failing: bool = False,
    unsent: list[Delivery] | None = None,
) -> list[Delivery]:
    """Exchange rows with the outbox; each time as another worker, unless there is a lease."""
    made = OutboxBatch(notification.pk, lease or uuid.uuid4(), list(outcomes), unsent or [], room)
    return made.run(include_failing)
