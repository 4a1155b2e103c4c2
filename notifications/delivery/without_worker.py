"""Sends due deliveries from a process other than a worker: one attempt each, under a lease like a worker's."""

import asyncio
import uuid
from collections.abc import Collection, Iterable

from django.db.models import Exists, OuterRef

from notifications.delivery import posting
from notifications.delivery.outbox import MAX_CLAIMED, OutboxBatch
from notifications.models import Delivery, Notification
from relayer_service.database.clock import DatabaseNow


def send_due(events: Collection[str]) -> None:
    """Send the due deliveries of these events, in at most WEBHOOK_TIMEOUT_SECONDS."""
    due = Delivery.objects.filter(notification=OuterRef("pk"), event__in=events, due_at__lte=DatabaseNow())
    targets = list(Notification.objects.filter(Exists(due), enabled=True).values_list("pk", flat=True))
    lease = uuid.uuid4()
    claimed: list[Delivery] = []
    for pk in targets:
        claimed += OutboxBatch(pk, lease, room=MAX_CLAIMED, events=events).run(include_failing=True)
    outcomes = asyncio.run(_attempt(claimed))
    for pk in targets:
        OutboxBatch(pk, lease, [each for each in outcomes if each.delivery.notification_id == pk]).run(False)


async def _attempt(deliveries: Iterable[Delivery]) -> list[posting.Outcome]:
    async with posting.open_session() as session:
        return await asyncio.gather(*(posting.send(session, delivery) for delivery in deliveries))
