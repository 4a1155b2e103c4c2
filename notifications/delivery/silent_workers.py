"""Reports workers that were killed or hang while others run: by one that is left, once."""

from django.db import transaction

from notifications.delivery.alerts import MAX_ALERTED, working_targets
from notifications.delivery.creating import create_deliveries
from notifications.events import WORKER_STOPPED, WorkerStoppedData
from relayer_service.database.clock import timestamp
from relayer_service.models import MAX_MISSED, WorkerProcess


def report_silent() -> None:
    """Report workers that were not stopped and no longer beat. The sweep sends the reports."""
    for silent in WorkerProcess.objects.silent():
        with transaction.atomic():
            unchanged = WorkerProcess.objects.filter(name=silent.name, beat_at=silent.beat_at, silent_since=None)
            if not unchanged.update(silent_since=silent.beat_at):
                continue
            data = WorkerStoppedData(
                stopped_since=timestamp(silent.beat_at),
                worker=silent.name,
                workers_left=WorkerProcess.objects.filter(missed__lte=MAX_MISSED).count(),
            )
            create_deliveries(WORKER_STOPPED, working_targets(WORKER_STOPPED.name)[:MAX_ALERTED], data)
