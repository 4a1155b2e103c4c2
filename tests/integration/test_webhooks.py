"""Webhooks with real workers that are killed, to receivers that behave badly."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.db import connection, transaction

from notifications.events import NOTIFICATION_FAILING
from notifications.models import Attempt, Delivery, Notification
from relayer_service.background import tasks
from tests.forked_workers import Workers
from tests.notifications.factories import emit_test
from tests.notifications.receivers import Behaviour, Handler, Receiver, answer, hang, receiver, slow

KEY = "a key of the receivers"
WORKER_ENVIRONMENT = {
    "WEBHOOK_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
    "WEBHOOK_SCHEDULE": ",".join(["0", *["1"] * 29]),
    "WEBHOOK_TIMEOUT_SECONDS": "2",
    "WORKER_THREADS": "4",
}


def flapping() -> Behaviour:
    """Fail at every other request."""
    turns = iter(range(10**9))
    lock = threading.Lock()

    def behave(handler: Handler) -> None:
        with lock:
            turn = next(turns)
        answer(200 if turn % 2 else 500)(handler)

    return behave


BEHAVIOURS: dict[str, Callable[[], Behaviour]] = {
    "fast": answer,
    "slow": lambda: slow(0.1),
    "flapping": flapping,
    "failing": lambda: answer(500),
    "hanging": lambda: hang,
}
HEALTHY = ["fast", "slow", "flapping"]


@pytest.fixture
def receivers(transactional_db: None) -> Iterator[dict[str, Receiver]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(receiver(make(), key=KEY)) for name, make in BEHAVIOURS.items()}


@pytest.fixture
def notifications(receivers: dict[str, Receiver]) -> dict[str, Notification]:
    tasks.prepare_queue()
    tasks.queue.storage.flush_all()
    made = {}
    for name, target in receivers.items():
        made[name] = Notification(identifier=name, url=target.url)
        made[name].set_signing_key(KEY)
        made[name].save()
    return made


def emit_event(notification: Notification) -> str:
    with transaction.atomic():
        return emit_test(notification).identifier


def emit_and_roll_back(notification: Notification) -> str:
    with transaction.atomic():
        identifier = emit_event(notification)
        transaction.set_rollback(True)
    return identifier


@pytest.mark.long
def test_no_event_is_lost_while_workers_are_killed(
    receivers: dict[str, Receiver], notifications: dict[str, Notification], tmp_path: Path
) -> None:
    on_postgresql = connection.vendor == "postgresql"
    # One worker is what the local profile has. The oldest is killed whenever so many have been delivered since.
    events, count, kill_after = (500, 3, 25) if on_postgresql else (120, 1, 20)
    workers = Workers(count, tmp_path, **WORKER_ENVIRONMENT)
    per_round = events // 60
    emitted: dict[str, list[str]] = {name: [] for name in receivers}
    rolled_back: list[str] = []
    names = random.Random(7).choices(list(receivers), k=events)

    healthy = Delivery.objects.filter(notification__identifier__in=HEALTHY)
    delivered, before_last_kill = healthy.filter(state=Delivery.State.DELIVERED), 0

    try:
        deadline = time.monotonic() + 900
        while names or healthy.filter(state=Delivery.State.PENDING).exists():
            assert time.monotonic() < deadline, {name: len(one.requests) for name, one in receivers.items()}
            for name in names[:per_round]:
                emitted[name].append(emit_event(notifications[name]))
            if names:
                rolled_back.append(emit_and_roll_back(notifications["fast"]))
            names = names[per_round:]
            if (done := delivered.count()) >= before_last_kill + kill_after:
                workers.kill_oldest()
                before_last_kill = done
            time.sleep(0.05)
    finally:
        workers.end()

    # The service itself tells the others of a target that fails.
    alerts = Delivery.objects.filter(event=NOTIFICATION_FAILING.name)
    for name in receivers:
        emitted[name] += alerts.filter(notification__identifier=name).values_list("identifier", flat=True)
    everything = [identifier for identifiers in emitted.values() for identifier in identifiers]
    assert workers.kills >= (5 if on_postgresql else 2)
    assert len(set(everything)) == events + alerts.count()
    assert not any(one.forged for one in receivers.values())
    assert not healthy.exclude(state=Delivery.State.DELIVERED).exists()
    for name in HEALTHY:
        assert set(receivers[name].webhook_ids) == set(emitted[name])
    for name, one in receivers.items():
        # Nothing came that was not emitted to this very receiver.
        assert set(one.webhook_ids) <= set(emitted[name])
    assert not set(rolled_back) & {identifier for one in receivers.values() for identifier in one.webhook_ids}
    # The row of each event is there; those that did not arrive are still to be sent, or were given up in plain view.
    assert set(Delivery.objects.values_list("identifier", flat=True)) == set(everything)
    failing = Delivery.objects.filter(notification__identifier__in=["failing", "hanging"])
    assert not failing.filter(state=Delivery.State.DELIVERED).exists()
    assert Attempt.objects.filter(delivery__notification__identifier="failing", response_code=500).exists()
    assert receivers["failing"].max_at_once <= 8
    assert receivers["hanging"].requests
