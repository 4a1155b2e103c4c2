"""The deliveries of the last day by hour and state, counted by the worker: a page cannot read so many each time."""

from datetime import timedelta

from django.db import transaction
from django.db.models import Count
from django.db.models.functions import TruncHour

from notifications.models import Delivery, DeliveryHour
from relayer_service.storage.clock import database_now

HOURS = 24


def count() -> None:
    """Count anew all hours of the last day: a delivery of any of them may have come to another state."""
    now = database_now()
    newest = now.replace(minute=0, second=0, microsecond=0)
    hours = [newest - timedelta(hours=ago) for ago in range(HOURS)]
    emitted = Delivery.objects.filter(created_at__gte=hours[-1], created_at__lte=now).order_by()
    groups = emitted.values_list("state", TruncHour("created_at")).annotate(rows=Count("*"))
    rows = {(state, hour): rows for state, hour, rows in groups}
    found = [
        DeliveryHour(hour=hour, state=state, deliveries=rows.get((state, hour), 0), counted_at=now)
        for state in Delivery.State.values
        for hour in hours
    ]
    with transaction.atomic():
        DeliveryHour.objects.filter(hour__lt=hours[-1]).delete()
        DeliveryHour.objects.bulk_create(
            found,
            update_conflicts=True,
            unique_fields=["hour", "state"],
            update_fields=["deliveries", "counted_at"],
        )
