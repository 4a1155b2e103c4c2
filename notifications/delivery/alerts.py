"""What other targets are told of one that fails or is gone.

A storm is bounded. Only targets that work are told, at most `MAX_TOLD` of them. An event is for a change of state, and
a target that comes and goes has one `notification.failing` an hour at most. Attempts at such an event never cause
another one: two targets that fail cannot go on telling each other. That a target is gone can be told whatever it was
sent, as it is told once and then nothing more is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import QuerySet

from notifications.catalogue import Data, Event
from notifications.delivery.attempts import Outcome
from notifications.delivery.creating import create_deliveries
from notifications.events import (
    ABOUT_TARGETS,
    NOTIFICATION_FAILING,
    NOTIFICATION_GONE,
    NotificationData,
    NotificationFailingData,
)
from notifications.models import Notification
from relayer_service.storage.clock import database_now, timestamp

MAX_TOLD = 100
MIN_INTERVAL = timedelta(hours=1)


def announce(target: Notification, outcomes: Iterable[Outcome], *, became_gone: bool) -> set[int]:
    """Create deliveries to other targets of what the outcomes have changed of this one; return the targets' keys."""
    if became_gone:
        return tell_others(NOTIFICATION_GONE, target, NotificationData(notification_id=target.identifier))
    failed = [each for each in outcomes if not each.succeeded and each.delivery.event not in ABOUT_TARGETS]
    if target.failing_since is None or target.gone_at or not failed or not is_news(target, now := database_now()):
        return set()
    data = NotificationFailingData(
        notification_id=target.identifier, failing_since=timestamp(target.failing_since), error=failed[-1].error
    )
    # A target of which nobody could be told is told of later, at another failure.
    told = tell_others(NOTIFICATION_FAILING, target, data)
    if told:
        target.failing_announced_at = now
        Notification.objects.filter(pk=target.pk).update(failing_announced_at=now)
    return told


def is_news(target: Notification, now: datetime) -> bool:
    """Return whether others have not been told of this failure, nor of one before it within the last hour."""
    assert target.failing_since is not None
    told = target.failing_announced_at
    return told is None or (told < target.failing_since and now - told >= MIN_INTERVAL)


def tell_others(event: Event[Data], target: Notification, data: Data) -> set[int]:
    """Create deliveries of an event to the other targets that work, the oldest first; return their keys."""
    others = working_targets().exclude(pk=target.pk)[:MAX_TOLD]
    return {delivery.notification_id for delivery in create_deliveries(event, others, data)}


def working_targets() -> QuerySet[Notification]:
    return Notification.objects.filter(enabled=True, failing_since=None, gone_at=None).order_by("sequence")
