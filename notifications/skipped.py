"""How many events were not queued, as their target was disabled.

Counted like rows (`relayer_service/storage/counting.py`): appended, so that those who emit never wait for each other,
and folded by the worker into one row a target. What is counted of a deleted target stays in the total.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import Sum

from notifications.models import Notification
from relayer_service.models import RowDelta

COUNTED_AS = "notifications:skipped_events"


def count(events: Mapping[int, int]) -> None:
    """Count how many events were skipped, by the key of their target."""
    if events:
        RowDelta.objects.bulk_create(
            RowDelta(list_name=COUNTED_AS, bucket=pk, rows=number) for pk, number in events.items()
        )


def total(notification: Notification | None = None) -> int:
    """Return how many events were skipped, of one target or of all."""
    rows = RowDelta.objects.filter(list_name=COUNTED_AS)
    if notification is not None:
        rows = rows.filter(bucket=notification.pk)
    return int(rows.aggregate(total=Sum("rows"))["total"] or 0)
