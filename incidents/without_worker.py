"""Alerts while no worker runs: web processes do the periodic work of incidents in its place."""

from incidents import tasks
from notifications.worker_check import is_silent
from relayer_service.background.tasks import HEARTBEAT
from relayer_service.models import PeriodicRun


def alert() -> None:
    run = PeriodicRun.objects.filter(name=HEARTBEAT).first()
    if run is not None and is_silent(run):
        tasks.watch_causes.call_local()
        tasks.send_alerts.call_local()
