"""Reports that no worker is running, and that one is again: by whichever process notices first, once.

Every web process checks. As no worker sends the report, the web processes do. Workers report one of several.
"""

import asyncio
import uuid
from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from notifications.delivery import posting
from notifications.delivery.outbox import MAX_CLAIMED, OutboxBatch, due_targets
from notifications.emitting import emit_to_all
from notifications.events import WORKER_RESUMED, WORKER_STOPPED, Data, Event, WorkerData, WorkerStoppedData
from notifications.models import Delivery
from relayer_service.background.tasks import HEARTBEAT
from relayer_service.database.clock import database_now, timestamp
from relayer_service.health.views import MAX_BEAT_AGE
from relayer_service.models import PeriodicRun, WorkerProcess


def check() -> None:
    """Report a change, and send the reports that are due while no worker is running."""
    run = PeriodicRun.objects.filter(name=HEARTBEAT).first()
    if run is None or run.finished_at is None:
        # No worker has been running yet.
        return
    is_running = not is_silent(run)
    if not is_running and run.stopped_since is None:
        data = WorkerStoppedData(stopped_since=timestamp(run.finished_at), worker=None, workers_left=0)
        report(WORKER_STOPPED, data, run, run.finished_at)
    elif is_running and run.stopped_since is not None:
        report(WORKER_RESUMED, WorkerData(stopped_since=timestamp(run.stopped_since)), run, None)
    if not is_running:
        send_due(WORKER_STOPPED.name, WORKER_RESUMED.name)


def is_silent(run: PeriodicRun) -> bool:
    """Return whether the heartbeat of the workers is too old."""
    return run.finished_at is not None and abs(database_now() - run.finished_at) > MAX_BEAT_AGE


def report(event: Event[Data], data: Data, seen: PeriodicRun, stopped_since: datetime | None) -> None:
    """Emit an event, unless another process has, or a worker has beaten in the meantime."""
    unchanged = PeriodicRun.objects.filter(
        name=HEARTBEAT, finished_at=seen.finished_at, stopped_since=seen.stopped_since
    )
    with transaction.atomic():
        if unchanged.update(stopped_since=stopped_since):
            if stopped_since is not None:
                # Reported together.
                WorkerProcess.objects.all().delete()
            emit_to_all(event, data)


def send_due(*events: str) -> None:
    """Make one attempt at each due delivery of these events, under a lease like a worker's."""
    targets, lease = due_targets(*events), uuid.uuid4()
    claimed: list[Delivery] = []
    for pk in targets:
        claimed += OutboxBatch(pk, lease, room=MAX_CLAIMED, events=events).run(include_failing=True)
    outcomes = asyncio.run(_attempt(claimed))
    for pk in targets:
        OutboxBatch(pk, lease, [each for each in outcomes if each.delivery.notification_id == pk]).run(False)


async def _attempt(deliveries: Iterable[Delivery]) -> list[posting.Outcome]:
    async with posting.open_session() as session:
        return await asyncio.gather(*(posting.send(session, delivery) for delivery in deliveries))
