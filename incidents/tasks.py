from incidents import delivery, watching
from notifications.worker_check import is_silent
from relayer_service.background.tasks import HEARTBEAT, periodic
from relayer_service.models import PeriodicRun


@periodic(seconds=10)
def watch_causes() -> None:
    watching.watch()


@periodic(seconds=5)
def send_alerts() -> None:
    delivery.send_due()


@periodic(seconds=60 * 60)
def prune_incidents() -> None:
    watching.prune()


def alert_without_worker() -> None:
    """Watch and send alerts in a web process, while no worker runs."""
    run = PeriodicRun.objects.filter(name=HEARTBEAT).first()
    if run is not None and is_silent(run):
        watch_causes.call_local()
        send_alerts.call_local()
