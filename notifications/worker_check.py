"""Reports that no worker is running, and that one is again: by whichever process notices first, once.

Every web process checks. As no worker sends the report, the web processes do. `silent_workers` reports one of several.
"""

from datetime import datetime

from django.db import transaction

from notifications.delivery.without_worker import send_due
from notifications.emitting import emit_to_all
from notifications.events import WORKER_RESUMED, WORKER_STOPPED, Data, Event, WorkerData, WorkerStoppedData
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
        send_due([WORKER_STOPPED.name, WORKER_RESUMED.name])


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
