from incidents import delivery, watching
from relayer_service.background.tasks import periodic


@periodic(seconds=10)
def watch_causes() -> None:
    watching.watch()


@periodic(seconds=5)
def send_alerts() -> None:
    delivery.send_due()


@periodic(seconds=60 * 60)
def prune_incidents() -> None:
    watching.prune()
