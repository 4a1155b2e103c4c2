"""The sender of a worker, with its own event loop and threads, against real receivers."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone
from pytest_django import Settings

from notifications import tasks
from notifications.delivery import outbox, outstanding, posting
from notifications.delivery import sender as sender_module
from notifications.delivery.sender import Sender, raise_file_limit
from notifications.models import Attempt, Delivery, Notification
from notifications.subscriptions import EVERYTHING
from relayer_service.background.tasks import queue
from relayer_service.database.clock import database_now
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.notifications.factories import create_notification, emit_test
from tests.notifications.receivers import Behaviour, Handler, Receiver, answer, hang, in_turn, receiver, slow

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "a key"


@pytest.fixture(autouse=True)
def quick(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    settings.WEBHOOK_SCHEDULE = [0, 0, 0, 0]
    monkeypatch.setattr(sender_module, "DATABASE_PAUSE_SECONDS", 0.05)


@contextmanager
def running() -> Iterator[Sender]:
    made = Sender()
    try:
        yield made
    finally:
        made.stop(5)
        # The threads' connections go with them.
        made.database.shutdown()


@pytest.fixture
def sender(transactional_db: None) -> Iterator[Sender]:
    with running() as made:
        yield made


@pytest.fixture(autouse=True)
def patience(settings: Settings) -> None:
    """What hangs does so for longer than any test waits."""
    settings.WEBHOOK_TIMEOUT_SECONDS = 2 * PATIENCE_SECONDS


def full(number: int) -> Behaviour:
    """Answer nobody until so many have come at once, and a moment later, in which more could come."""

    def behave(handler: Handler) -> None:
        wait_until(lambda: handler.server.max_at_once >= number)
        slow(0.03)(handler)

    return behave


def target_of(server: Receiver, identifier: str = "hook") -> Notification:
    return create_notification(url=server.url, signing_key=server.key, identifier=identifier, events=EVERYTHING)


def emit_many(notification: Notification, count: int) -> list[str]:
    return [emit_test(notification).identifier for _ in range(count)]


def all_delivered(notification: Notification) -> bool:
    return not notification.deliveries.exclude(state=Delivery.State.DELIVERED).exists()


def woken(sender: Sender, notification: Notification) -> bool:
    """Wake the sender, as the sweep does; return whether all is delivered."""
    sender.wake(notification.pk)
    return all_delivered(notification)


def states() -> list[tuple[Any, ...]]:
    return sorted(Delivery.objects.values_list("state", "attempts_made"))


def test_what_is_due_and_emitted_meanwhile_is_delivered_once_and_verified(sender: Sender) -> None:
    with receiver(slow(0.005), key=KEY) as server:
        notification = target_of(server)
        emitted = emit_many(notification, 60)
        sender.wake(notification.pk)
        for _ in range(40):
            emitted += emit_many(notification, 1)
            sender.wake(notification.pk)
        wait_until(lambda: all_delivered(notification))
    assert sorted(server.webhook_ids) == sorted(emitted)
    assert server.forged == []
    assert states() == [("delivered", 1)] * 100
    assert Attempt.objects.filter(response_code=200, error="").count() == 100


def test_workers_together_send_no_more_at_once_than_one_and_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "TARGET_CONCURRENCY", 3)
    with receiver(full(3)) as server, running() as first, running() as second, running() as third:
        notification = target_of(server)
        emitted = []

        def sweep() -> bool:
            for sender in (first, second, third):
                sender.wake(notification.pk)
            return all_delivered(notification)

        for _ in range(20):
            emitted += emit_many(notification, 3)
            sweep()
        wait_until(sweep)
    assert sorted(server.webhook_ids) == sorted(emitted)
    assert server.max_at_once == 3


@pytest.mark.parametrize("outstanding_limit", [64, 8])
def test_a_hanging_target_does_not_hold_a_fast_one(
    sender: Sender, monkeypatch: pytest.MonkeyPatch, outstanding_limit: int
) -> None:
    # Attempts that hang leave their places to others.
    monkeypatch.setattr(outstanding, "MAX_OUTSTANDING", outstanding_limit)
    if outstanding_limit == 8:
        monkeypatch.setattr(outstanding, "SLOW_SECONDS", 0.01)
    with receiver(hang) as hanging, receiver() as fast:
        slow_target, fast_target = target_of(hanging, "hanging"), target_of(fast, "fast")
        emit_many(slow_target, 50)
        sender.wake(slow_target.pk)
        wait_until(lambda: hanging.at_once == 8)
        emit_many(fast_target, 50)
        sender.wake(fast_target.pk)
        wait_until(lambda: all_delivered(fast_target))
        assert hanging.at_once == 8
        assert not slow_target.deliveries.exclude(state="pending", attempts_made=0).exists()


def test_targets_that_fail_do_not_take_the_places_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "MAX_TARGETS", 1)
    with receiver(hang) as hanging, receiver() as fast, running() as sender:
        slow_target, fast_target = target_of(hanging, "hanging"), target_of(fast, "fast")
        Notification.objects.filter(pk=slow_target.pk).update(failing_since=timezone.now())
        emit_many(slow_target, 5)
        sender.wake(slow_target.pk)
        wait_until(lambda: hanging.at_once == 1)
        emit_many(fast_target, 5)
        sender.wake(fast_target.pk)
        wait_until(lambda: all_delivered(fast_target))
        assert (hanging.at_once, len(hanging.requests)) == (1, 1)
        hanging.closing.set()


def test_a_failure_is_tried_again_under_the_same_id_until_it_succeeds(sender: Sender) -> None:
    with receiver(in_turn(answer(500), answer(503), answer(204)), key=KEY) as server:
        notification = target_of(server)
        (identifier,) = emit_many(notification, 1)
        wait_until(lambda: woken(sender, notification))
    assert server.webhook_ids == [identifier] * 3
    assert list(Attempt.objects.values_list("response_code", flat=True)) == [500, 503, 204]
    notification.refresh_from_db()
    assert notification.failing_since is None


def test_a_target_that_is_gone_gets_nothing_more_nor_what_was_claimed_before(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "TARGET_CONCURRENCY", 2)
    with receiver(slow(0.05, answer(410))) as server:
        notification = target_of(server)
        emit_many(notification, 20)
        sender.wake(notification.pk)
        wait_until(lambda: not Delivery.objects.exclude(state="failed").exists())
        emit_many(notification, 3)
        sender.wake(notification.pk)
        wait_until(lambda: states() == [("failed", 0)] * 21 + [("failed", 1)] * 2)
    assert len(server.requests) == 2


def test_from_its_first_failure_on_a_target_gets_one_delivery_at_a_time(
    sender: Sender, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_SCHEDULE = [0]
    monkeypatch.setattr(sender_module, "TARGET_CONCURRENCY", 3)
    lock, running, at_once = threading.Lock(), set[int](), list[int]()

    def fail(handler: Handler) -> None:
        with lock:
            running.add(id(handler))
            at_once.append(len(running))
        handler.server.closing.wait(0.05)
        # Before the answer, after which the next may come at once.
        with lock:
            running.remove(id(handler))
        answer(500)(handler)

    with receiver(fail) as server:
        notification = target_of(server)
        emit_many(notification, 9)
        sender.wake(notification.pk)
        wait_until(lambda: states() == [("failed", 1)] * 9)
    assert at_once[3:] == [1] * 6


def test_a_stop_waits_for_what_is_on_its_way_and_takes_nothing_more(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "TARGET_CONCURRENCY", 1)

    def until_stopped(handler: Handler) -> None:
        wait_until(lambda: sender.stopping)
        slow(0.1)(handler)

    with receiver(until_stopped) as server:
        notification = target_of(server)
        (first, *_) = emit_many(notification, 3)
        sender.wake(notification.pk)
        wait_until(lambda: len(server.requests) == 1)
        sender.stop(PATIENCE_SECONDS)
        # What was taken and not sent is due for another worker at once.
        assert states() == [("delivered", 1), ("pending", 0), ("pending", 0)]
        assert Delivery.objects.filter(state="pending", lease=None, due_at__lte=database_now()).count() == 2
        assert server.webhook_ids == [first]


def test_a_sender_that_was_stopped_is_not_woken(sender: Sender) -> None:
    with receiver() as server:
        notification = target_of(server)
        sender.wake(notification.pk)
        sender.stop(5)
        emit_many(notification, 1)
        sender.wake(notification.pk)
        sender.stop(5)
        time.sleep(0.2)
    assert server.requests == []
    assert states() == [("pending", 0)]


def test_a_stop_does_not_wait_for_longer_than_it_is_told_to(sender: Sender) -> None:
    with receiver(hang) as server:
        notification = target_of(server)
        emit_many(notification, 1)
        sender.wake(notification.pk)
        wait_until(lambda: len(server.requests) == 1)
        begun = time.monotonic()
        sender.stop(0.5)
        assert time.monotonic() - begun < PATIENCE_SECONDS / 2
    # That we hung up is no failure of the target. The lease ends by itself, and another worker sends it.
    assert Delivery.objects.filter(state="pending", attempts_made=0, lease__isnull=False).count() == 1
    assert not Attempt.objects.exists()


@pytest.mark.parametrize("failing_call", [1, 2])
def test_a_database_that_fails_for_a_moment_loses_and_doubles_nothing(
    failing_call: int, sender: Sender, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = iter(range(1, 10**6))
    real = outbox.OutboxBatch.run

    def run(exchange: outbox.OutboxBatch, include_failing: bool) -> list[Delivery]:
        if next(calls) == failing_call:
            raise OperationalError("the database is away")
        return real(exchange, include_failing)

    monkeypatch.setattr(outbox.OutboxBatch, "run", run)
    with receiver() as server:
        notification = target_of(server)
        emitted = emit_many(notification, 5)
        sender.wake(notification.pk)
        wait_until(lambda: all_delivered(notification))
    assert sorted(server.webhook_ids) == sorted(emitted)
    assert Attempt.objects.count() == 5
    errors = [record for record in caplog.records if record.name == "notifications.delivery.sender"]
    # Without a traceback: there is a line for each target and second of an outage.
    assert [(record.getMessage(), record.exc_info) for record in errors] == [
        ("Cannot read or write deliveries OperationalError: the database is away", None)
    ]


def test_a_fault_in_one_attempt_does_not_stop_its_target(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()
    real = posting.signing.headers  # type: ignore[attr-defined]

    def headers(*args: Any) -> dict[str, str]:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("a fault")
        made: dict[str, str] = real(*args)
        return made

    monkeypatch.setattr("notifications.delivery.signing.headers", headers)
    with receiver() as server:
        notification = target_of(server)
        emit_many(notification, 3)
        wait_until(lambda: woken(sender, notification))
    assert states() == [("delivered", 1), ("delivered", 1), ("delivered", 2)]
    assert len(server.requests) == 3


def test_a_sender_whose_loop_is_lost_sends_on_with_another(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "MAX_TARGETS", 1)
    real = posting.send

    async def end_loop(*args: Any) -> posting.Outcome:
        monkeypatch.setattr(posting, "send", real)
        asyncio.get_running_loop().stop()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(posting, "send", end_loop)
    with receiver() as server:
        lost, other = target_of(server, "lost"), target_of(server, "other")
        emit_many(lost, 1)
        sender.wake(lost.pk)
        wait_until(lambda: "webhook-sender" not in {thread.name for thread in threading.enumerate()})
        # What was on its way is due again, as its lease has ended.
        Delivery.objects.update(due_at=timezone.now(), lease=None)
        emit_many(other, 1)
        for target in (lost, other):
            sender.wake(target.pk)
        wait_until(lambda: all_delivered(lost) and all_delivered(other))
    assert states() == [("delivered", 1), ("delivered", 1)]


def test_an_event_reaches_the_sender_by_its_task_or_else_by_the_sweep(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "sender", sender)
    with receiver() as server:
        notification = target_of(server)
        emit_many(notification, 1)
        task = queue.dequeue()
        assert task.name == "deliver"
        queue.execute(task)
        wait_until(lambda: all_delivered(notification))
        emit_many(notification, 1)
        queue.flush()
        tasks.send_due_webhooks.call_local()
        wait_until(lambda: all_delivered(notification))
    assert len(server.requests) == 2


def test_other_targets_are_sent_at_once_that_one_fails(sender: Sender) -> None:
    with receiver(answer(500)) as failing, receiver() as server:
        notification, other = target_of(failing, "failing"), target_of(server, "other")
        emit_many(notification, 1)
        sender.wake(notification.pk)
        wait_until(lambda: other.deliveries.filter(state=Delivery.State.DELIVERED).exists())
    assert list(other.deliveries.values_list("event", flat=True)) == ["notification.failing"]


def test_a_system_that_keeps_its_limit_of_files_does_not_stop_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind: int, limits: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_file_limit()


def test_no_more_than_64_results_of_a_worker_are_outstanding(monkeypatch: pytest.MonkeyPatch) -> None:
    # Enough threads that targets are claimed while the results of others cannot be written.
    monkeypatch.setattr(sender_module, "DATABASE_THREADS", 16)
    monkeypatch.setattr(outstanding, "SLOW_SECONDS", PATIENCE_SECONDS)
    lock, written, at_once = threading.Lock(), list[int](), list[int]()
    real = outbox.OutboxBatch.run

    def run(exchange: outbox.OutboxBatch, include_failing: bool) -> list[Delivery]:
        if exchange.outcomes:
            wait_until(lambda: len(at_once) >= 64)
        claimed = real(exchange, include_failing)
        with lock:
            written.extend(1 for _ in exchange.outcomes)
        return claimed

    def count(handler: Handler) -> None:
        with lock:
            at_once.append(len(at_once) + 1 - len(written))
        answer()(handler)

    monkeypatch.setattr(outbox.OutboxBatch, "run", run)
    with receiver(count) as server, running() as sender:
        targets = [target_of(server, f"hook-{number}") for number in range(10)]
        for target in targets:
            emit_many(target, 20)
            sender.wake(target.pk)
        wait_until(lambda: states() == [("delivered", 1)] * 200)
    assert max(at_once) == 64


def test_a_lease_that_was_given_up_is_not_used_again(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "MAX_DATABASE_FAILURES", 2)
    real, given_up, used_later = outbox.OutboxBatch.run, list[uuid.UUID](), list[uuid.UUID]()

    def run(exchange: outbox.OutboxBatch, include_failing: bool) -> list[Delivery]:
        if exchange.outcomes and len(given_up) < 2:
            given_up.append(exchange.lease)
            raise OperationalError("the database is away")
        if len(given_up) == 2:
            used_later.append(exchange.lease)
        return real(exchange, include_failing)

    monkeypatch.setattr(outbox.OutboxBatch, "run", run)
    with receiver(in_turn(answer(500), answer())) as server:
        notification = target_of(server)
        emit_many(notification, 1)
        sender.wake(notification.pk)
        wait_until(lambda: len(given_up) == 2)
        # As if its lease had ended.
        Delivery.objects.update(due_at=timezone.now(), lease=None)
        wait_until(lambda: woken(sender, notification))
    assert given_up[0] not in used_later
