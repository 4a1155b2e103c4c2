"""Counts of deliveries and skipped events, for the overview and the metrics.

All are read from an index or from rows that the worker counted: a log of a million rows is as fast as an empty one.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Min, OuterRef, QuerySet, Subquery, Sum

from notifications.models import FAILED_AT, Delivery, DeliveryHour, Notification, SkippedEventCount
from relayer_service.database.clock import DatabaseNow, database_now
from relayer_service.database.truncation import HourOf
from relayer_service.storage.counting import fold_rows

HOURS = 24
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def pending() -> QuerySet[Delivery]:
    """Return the pending deliveries. Only they have a `due_at`, whose index is short."""
    return Delivery.objects.filter(due_at__isnull=False).order_by()


def held() -> QuerySet[Delivery]:
    return pending().filter(notification__in=Notification.objects.filter(enabled=False).values("pk"))


def failed_in_a_day() -> QuerySet[Any]:
    yesterday = DatabaseNow() - timedelta(days=1)
    failed = Delivery.objects.filter(state=Delivery.State.FAILED).order_by().annotate(failed_at=FAILED_AT)
    recent: QuerySet[Any] = failed.filter(failed_at__gte=yesterday)
    return recent


def first_due(*, of_failing: bool) -> QuerySet[Any]:
    """Return the enabled targets that fail, or those that do not, each with its first `due_at` that has passed."""
    due = Delivery.objects.filter(notification=OuterRef("pk"), due_at__lte=DatabaseNow()).order_by("due_at")
    targets = Notification.objects.filter(enabled=True, failing_since__isnull=not of_failing).order_by()
    return targets.annotate(first_due=Subquery(due.values("due_at")[:1]))


def longest_wait(*, of_failing: bool) -> timedelta:
    wait = DatabaseNow() - Min("first_due")
    longest: timedelta | None = first_due(of_failing=of_failing).aggregate(longest=wait)["longest"]
    return longest or timedelta()


def count_hours() -> None:
    """Recount the last day by hour and state, as deliveries of any hour can change their state, and one day before.

    Each minute it is another one of those that the chart has, unless its deliveries may have been deleted.
    """
    now = database_now()
    newest = now.replace(minute=0, second=0, microsecond=0)
    count_day(newest, now)
    earlier = int(now.timestamp()) // 60 % (DeliveryHour.DAYS - 1) + 1
    if not settings.DELIVERIES_KEEP_DAYS or earlier < settings.DELIVERIES_KEEP_DAYS:
        count_day(newest - earlier * DAY, now)
    DeliveryHour.objects.filter(hour__lte=newest - DeliveryHour.DAYS * DAY).delete()


def count_day(last: datetime, now: datetime) -> None:
    """Count the deliveries of the day that ends with an hour, by hour and state."""
    hours = [last - timedelta(hours=ago) for ago in range(HOURS)]
    emitted = Delivery.objects.filter(created_at__gte=hours[-1], created_at__lt=last + HOUR).order_by()
    groups = emitted.values_list("state", HourOf("created_at")).annotate(rows=Count("*"))
    rows = {(state, hour): rows for state, hour, rows in groups}
    counted = [
        DeliveryHour(hour=hour, state=state, deliveries=rows.get((state, hour), 0), counted_at=now)
        for state in Delivery.State.values
        for hour in hours
    ]
    DeliveryHour.objects.bulk_create(
        counted,
        update_conflicts=True,
        unique_fields=["hour", "state"],
        update_fields=["deliveries", "counted_at"],
    )


def count_skipped(events: Mapping[int, int]) -> None:
    """Add the numbers of events that were skipped because their target was disabled, by the target's key."""
    if events:
        SkippedEventCount.objects.bulk_create(
            SkippedEventCount(target=pk, events=number) for pk, number in events.items()
        )


def fold_skipped() -> None:
    fold_rows(SkippedEventCount, "events", "target")


def skipped_events(notification: Notification | None = None) -> int:
    rows = SkippedEventCount.objects.all()
    if notification is not None:
        rows = rows.filter(target=notification.pk)
    return int(rows.aggregate(total=Sum("events"))["total"] or 0)
