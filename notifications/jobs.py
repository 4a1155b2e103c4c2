"""Jobs with notifications and deliveries."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import QuerySet

from notifications.emitting import send_test_event
from notifications.models import Delivery, Notification
from notifications.replay import replay, retry_now
from relayer_service.audit.recording import record_same
from relayer_service.jobs.kinds import JobKind, Result

# Required to send test events, and to retry and replay deliveries.
SEND = "notifications.send_delivery"


class SendTestEvents(JobKind):
    model_label = "notifications.Notification"
    permission = SEND
    title = "Send test events"
    job_title = "Send test events to {}"
    explanation = "A test event is sent immediately to {}."
    done = "Sent a test event"
    skip_reason = "disabled"
    batch_size = 50

    def run(self, keys: Sequence[int]) -> Result:
        targets = Notification.objects.filter(pk__in=keys).order_by("pk")
        return Result(sum(send_test_event(target) is not None for target in targets))


class DeliveryKind(JobKind):
    model_label = "notifications.Delivery"
    permission = SEND

    def act(self, deliveries: QuerySet[Delivery]) -> int:
        raise NotImplementedError

    def run(self, keys: Sequence[int]) -> Result:
        deliveries = Delivery.objects.filter(pk__in=keys)
        with transaction.atomic():
            count = self.act(deliveries)
            taken = deliveries.filter(state=Delivery.State.PENDING, lease=None)
            record_same(Delivery, list(taken.values_list("pk", "identifier")), reason=f"{self.done}.")
        return Result(count)


class ReplayDeliveries(DeliveryKind):
    title = "Replay"
    job_title = "Replay {}"
    explanation = "Sends {} again from the start of the schedule, with the same webhook-id and body."
    done = "Replayed"
    skip_reason = "in progress"

    def act(self, deliveries: QuerySet[Delivery]) -> int:
        return replay(deliveries)


class RetryDeliveries(DeliveryKind):
    title = "Retry now"
    job_title = "Retry {} now"
    explanation = "Makes the next attempt at {} immediately; the schedule continues from there."
    done = "Retried"
    skip_reason = "in progress or not pending"

    def act(self, deliveries: QuerySet[Delivery]) -> int:
        return retry_now(deliveries)
