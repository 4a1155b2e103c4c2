"""Replays and early retries of deliveries."""

from django.db import transaction
from django.db.models import QuerySet

from notifications.models import Delivery, Notification
from notifications.tasks import deliver
from relayer_service.audit.recording import changed, record
from relayer_service.background.tasks import push
from relayer_service.database.clock import DatabaseNow


def replay(deliveries: QuerySet[Delivery]) -> int:
    """Send deliveries again from the start of the schedule, with the same id and body; return how many."""
    return _make_due(deliveries, attempts_made=0)


def retry_now(deliveries: QuerySet[Delivery]) -> int:
    """Bring the next attempt of pending deliveries forward to now; return how many."""
    return _make_due(deliveries.filter(state=Delivery.State.PENDING))


def _make_due(deliveries: QuerySet[Delivery], **changes: int) -> int:
    at_rest = deliveries.exclude(Delivery.leased())
    with transaction.atomic():
        targets = list(at_rest.order_by().values_list("notification", flat=True).distinct())
        # Locked before the deliveries, as in workers: locks taken in two orders are a deadlock.
        locked = list(Notification.objects.select_for_update(no_key=True).filter(pk__in=targets).order_by("pk"))
        count = at_rest.update(state=Delivery.State.PENDING, due_at=DatabaseNow(), lease=None, **changes)
        # An explicit request: targets that returned 410 Gone are tried again.
        Notification.objects.filter(pk__in=targets, gone_at__isnull=False).update(gone_at=None)
        record(changed(target, {"gone_at": target.gone_at}, {"gone_at": None}) for target in locked)
        for target in targets:
            push(deliver, target)
    return count
