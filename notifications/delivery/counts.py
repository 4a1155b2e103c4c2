"""How many deliveries wait or have failed, counted in an index: as quick with a million in the log as with none."""

from datetime import timedelta
from typing import Any

from django.db.models import Min, OuterRef, QuerySet, Subquery

from notifications.models import FAILED_AT, Delivery, Notification
from relayer_service.storage.clock import DatabaseNow


def pending() -> QuerySet[Delivery]:
    """Return what is pending: it alone has a time at which it is due, and the index of those times is short."""
    return Delivery.objects.filter(due_at__isnull=False).order_by()


def held() -> QuerySet[Delivery]:
    """Return what is pending for disabled targets."""
    return pending().filter(notification__in=Notification.objects.filter(enabled=False).values("pk"))


def failed_in_a_day() -> QuerySet[Any]:
    yesterday = DatabaseNow() - timedelta(days=1)
    failed = Delivery.objects.filter(state=Delivery.State.FAILED).order_by().annotate(failed_at=FAILED_AT)
    lately: QuerySet[Any] = failed.filter(failed_at__gte=yesterday)
    return lately


def first_due(*, of_failing: bool) -> QuerySet[Any]:
    """Return the enabled targets that fail, or those that do not, each with the time of what is due for it first."""
    due = Delivery.objects.filter(notification=OuterRef("pk"), due_at__lte=DatabaseNow()).order_by("due_at")
    targets = Notification.objects.filter(enabled=True, failing_since__isnull=not of_failing).order_by()
    return targets.annotate(first_due=Subquery(due.values("due_at")[:1]))


def longest_wait(*, of_failing: bool) -> timedelta:
    """Return for how long a delivery has been due and not yet sent."""
    wait = DatabaseNow() - Min("first_due")
    longest: timedelta | None = first_due(of_failing=of_failing).aggregate(longest=wait)["longest"]
    return longest or timedelta()
