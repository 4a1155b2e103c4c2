from django.conf import settings

from notifications import skipped
from notifications.delivery import hours, outbox, retention
from notifications.delivery.sender import sender
from relayer_service.background.tasks import periodic, queue, task


@task()
def deliver(notification_pk: int) -> None:
    """Send the deliveries that are due for a target."""
    sender.wake(notification_pk)


@periodic(seconds=2)
def send_due_webhooks() -> None:
    """Send what is due again, and what no task was queued for."""
    for target_pk in outbox.due_targets():
        sender.wake(target_pk)


@periodic(seconds=60)
def count_deliveries() -> None:
    """Count the deliveries of the last day by hour, for the overview, and sum up the skipped events."""
    hours.count()
    skipped.fold()


@periodic(seconds=60 * 60)
def prune_deliveries() -> None:
    """Delete deliveries whose retention has ended."""
    retention.prune()


@queue.on_shutdown()
def stop_sending() -> None:
    sender.stop(settings.WORKER_STOP_SECONDS)
