"""How many events were not queued, as their target was disabled.

Counted like rows (`relayer_service/storage/counting.py`): appended, so that those who emit never wait for each other,
and folded by the worker into one row a target. What is counted of a deleted target stays in the total.
"""

from __future__ import annotations

from django.db.models import Sum

from notifications.models import Notification
from relayer_service.models import RowDelta

COUNTED_AS = "notifications:skipped_events"


def count_one(notification: Notification) -> None:
    RowDelta.objects.create(list_name=COUNTED_AS, bucket=notification.pk, rows=1)


def total(notification: Notification | None = None) -> int:
    """Return how many events were skipped, of one target or of all."""
    rows = RowDelta.objects.filter(list_name=COUNTED_AS)
    if notification is not None:
        rows = rows.filter(bucket=notification.pk)
    return int(rows.aggregate(total=Sum("rows"))["total"] or 0)
