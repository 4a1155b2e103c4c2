"""How many events were not queued, as their target was disabled."""

from collections.abc import Mapping

from django.db.models import Sum

from notifications.models import Notification, SkippedEventCount
from relayer_service.storage.counting import fold_rows


def count(events: Mapping[int, int]) -> None:
    """Count how many events were skipped, by the key of their target."""
    if events:
        SkippedEventCount.objects.bulk_create(
            SkippedEventCount(target=pk, events=number) for pk, number in events.items()
        )


def fold() -> None:
    """Replace what was counted of each target by one row."""
    fold_rows(SkippedEventCount, "events", "target")


def total(notification: Notification | None = None) -> int:
    """Return how many events were skipped, of one target or of all."""
    rows = SkippedEventCount.objects.all()
    if notification is not None:
        rows = rows.filter(target=notification.pk)
    return int(rows.aggregate(total=Sum("events"))["total"] or 0)
