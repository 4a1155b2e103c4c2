from notifications.delivery import alerts, counts, deleting, outbox
from notifications.delivery.sender import sender
from relayer_service.background.tasks import HEARTBEAT_SECONDS, STOP_SECONDS, periodic, queue, task


@task()
def deliver(notification_pk: int) -> None:
    sender.wake(notification_pk)


@periodic(seconds=2)
def send_due_webhooks() -> None:
    """Send retries, and deliveries for which no task was queued."""
    for target_pk in outbox.due_targets():
        sender.wake(target_pk)


@periodic(seconds=HEARTBEAT_SECONDS)
def report_silent_workers() -> None:
    alerts.report_silent_workers()


@periodic(seconds=60)
def count_deliveries() -> None:
    counts.count_hours()
    counts.fold_skipped()


@periodic(seconds=60 * 60)
def prune_deliveries() -> None:
    deleting.prune()


@queue.on_shutdown()
def stop_sending() -> None:
    sender.stop(STOP_SECONDS)
