"""Alerts: the events that other targets receive about one that fails or is gone, and about a stopped worker.

Storms are bounded. Only working targets that chose the event are alerted, at most `MAX_ALERTED` of them, on a change
of state, and at most once an hour about a target whose failures come and go. Attempts at an alert never cause
`notification.failing`, so two failing targets cannot alert each other forever; they can cause `notification.gone`,
which is sent once.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from notifications import events, subscriptions
from notifications.delivery.creating import create_deliveries
from notifications.delivery.posting import Outcome
from notifications.models import Notification
from relayer_service.database.clock import database_now, timestamp
from relayer_service.models import MAX_MISSED, WorkerProcess

MAX_ALERTED = 100
MIN_INTERVAL = timedelta(hours=1)


def announce(target: Notification, outcomes: Iterable[Outcome], *, became_gone: bool) -> set[int]:
    """Create the alerts that the outcomes of a target call for; return the keys of the targets that receive them."""
    if became_gone:
        return alert_others(
            events.NOTIFICATION_GONE, target, events.NotificationData(notification_id=target.identifier)
        )
    failed = [each for each in outcomes if not each.succeeded and each.delivery.event not in events.ABOUT_TARGETS]
    if target.failing_since is None or target.gone_at or not failed or not is_news(target, now := database_now()):
        return set()
    data = events.NotificationFailingData(
        notification_id=target.identifier, failing_since=timestamp(target.failing_since), error=failed[-1].error
    )
    alerted = alert_others(events.NOTIFICATION_FAILING, target, data)
    # If no target could be alerted, the next failure tries again.
    if alerted:
        target.failing_announced_at = now
        Notification.objects.filter(pk=target.pk).update(failing_announced_at=now)
    return alerted


def is_news(target: Notification, now: datetime) -> bool:
    """Return whether no alert was sent about this failure, nor about an earlier one within the last hour."""
    assert target.failing_since is not None
    announced = target.failing_announced_at
    return announced is None or (announced < target.failing_since and now - announced >= MIN_INTERVAL)


def report_silent_workers() -> None:
    """Report, once, workers that were killed or hang while others run. The sweep sends the reports."""
    for silent in WorkerProcess.objects.silent():
        with transaction.atomic():
            unchanged = WorkerProcess.objects.filter(name=silent.name, beat_at=silent.beat_at, silent_since=None)
            if not unchanged.update(silent_since=silent.beat_at):
                continue
            data = events.WorkerStoppedData(
                stopped_since=timestamp(silent.beat_at),
                worker=silent.name,
                workers_left=WorkerProcess.objects.filter(missed__lte=MAX_MISSED).count(),
            )
            create_deliveries(events.WORKER_STOPPED, working_targets(events.WORKER_STOPPED.name)[:MAX_ALERTED], data)


def alert_others(event: events.Event[events.Data], target: Notification, data: events.Data) -> set[int]:
    others = working_targets(event.name).exclude(pk=target.pk)[:MAX_ALERTED]
    return set(create_deliveries(event, others, data))


def working_targets(event: str) -> QuerySet[Notification]:
    """Return the targets that chose an event about the service, which is not among the default ones."""
    chose = Q(events__contains=event) | Q(events__contains=subscriptions.group_of(event))
    working = Notification.objects.filter(chose, enabled=True, failing_since=None, gone_at=None)
    # By its index.
    return working.exclude(events=subscriptions.DEFAULT).order_by("sequence")
