"""What a worker takes of a target's deliveries, and what it leaves to others."""

from __future__ import annotations

import threading
import time
import uuid

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from notifications.delivery import outbox
from notifications.delivery.posting import Outcome
from notifications.models import Delivery, Notification
from tests.concurrency import PATIENCE_SECONDS, in_threads
from tests.notifications.clock import NOON, Clock
from tests.notifications.factories import create_notification, emit_test, exchange, outcome

pytestmark = pytest.mark.both_engines

MINE = uuid.UUID(int=1)
OTHERS = uuid.UUID(int=2)


@pytest.mark.django_db
def test_what_is_due_is_taken_oldest_first_under_one_lease(clock: Clock, settings: Settings) -> None:
    settings.WEBHOOK_TIMEOUT_SECONDS = 15
    notification = create_notification()
    emitted = []
    for _ in range(3):
        emitted.append(emit_test(notification))
        clock.forward(1)
    later = emit_test(notification)
    Delivery.objects.filter(pk=later.pk).update(due_at=clock.now.replace(year=2027))
    taken = exchange(notification, lease=MINE)
    assert taken == emitted
    rows = list(Delivery.objects.order_by("id").values_list("state", "lease", "due_at", "attempts_made"))
    until = clock.now + outbox.lease_length()
    assert rows == [("pending", MINE, until, 0)] * 3 + [("pending", None, clock.now.replace(year=2027), 0)]
    # A row outlives its stay in the stock, its attempt, and the writing of what it came to.
    assert outbox.lease_length().total_seconds() >= 15 + outbox.MAX_CLAIMED_SECONDS


@pytest.mark.django_db
def test_no_more_is_taken_than_there_is_room_for_and_each_with_its_target(clock: Clock) -> None:
    notification = create_notification(signing_key="a key")
    emitted = [emit_test(notification) for _ in range(5)]
    taken = [exchange(notification, lease=MINE, room=room) for room in (-1, 0, 2, 64)]
    assert [len(rows) for rows in taken] == [0, 0, 2, 3]
    assert Delivery.objects.filter(lease=MINE).count() == len(emitted)
    row = taken[-1][0]
    assert (row.notification, row.notification.url) == (notification, notification.url)
    assert row.notification.signing_key == "a key"
    assert outbox.OutboxBatch(12345, MINE, room=64).run(include_failing=True) == []


@pytest.mark.django_db
def test_another_worker_takes_nothing_while_one_holds_a_target(clock: Clock) -> None:
    notification, other = create_notification(), create_notification(identifier="other")
    emitted = {emit_test(notification) for _ in range(3)}
    elsewhere = emit_test(other)
    assert len(exchange(notification, lease=MINE, room=1)) == 1
    assert exchange(notification, lease=OTHERS) == []
    assert exchange(other, lease=OTHERS) == [elsewhere]
    clock.forward(outbox.lease_length().total_seconds() - 0.001)
    assert exchange(notification, lease=OTHERS) == []
    clock.forward(0.001)
    # The first worker was killed: another makes it good.
    assert set(exchange(notification, lease=OTHERS)) == emitted


@pytest.mark.django_db
def test_a_target_is_free_for_others_when_all_that_was_taken_is_written_back(clock: Clock) -> None:
    notification = create_notification()
    emitted = {emit_test(notification), emit_test(notification)}
    (row,) = exchange(notification, lease=MINE, room=1)
    assert exchange(notification, lease=OTHERS) == []
    assert exchange(notification, outcome(row), lease=MINE, room=0) == []
    assert {row, *exchange(notification, lease=OTHERS)} == emitted


@pytest.mark.django_db
def test_what_was_not_sent_is_due_again_unless_another_worker_took_it_meanwhile(clock: Clock) -> None:
    notification = create_notification()
    emit_test(notification)
    before = Delivery.objects.values().get()
    unsent = exchange(notification, lease=MINE)
    clock.forward(3)
    assert exchange(notification, lease=MINE, room=0, unsent=unsent) == []
    assert Delivery.objects.values().get() == before | {"due_at": clock.now}
    unsent = exchange(notification, lease=MINE)
    clock.forward(60)
    (row,) = exchange(notification, lease=OTHERS)
    exchange(notification, lease=MINE, room=0, unsent=unsent)
    assert Delivery.objects.values_list("lease", "due_at").get() == (OTHERS, row.due_at)


@pytest.mark.django_db
def test_a_target_that_fails_is_tried_with_one_delivery_and_only_in_its_own_place(clock: Clock) -> None:
    notification = create_notification()
    Notification.objects.update(failing_since=NOON)
    emitted = {emit_test(notification) for _ in range(3)}
    assert exchange(notification, lease=MINE) == []
    (row,) = exchange(notification, lease=MINE, include_failing=True)
    assert {row, *exchange(notification, outcome(row, 200), lease=MINE, include_failing=True)} == emitted


@pytest.mark.django_db
def test_an_exchange_shows_whether_the_target_fails(clock: Clock) -> None:
    notification = create_notification()
    emit_test(notification)
    (row,) = exchange(notification, lease=MINE)
    exchanged = outbox.OutboxBatch(notification.pk, MINE, [outcome(row, 500)])
    exchanged.run(include_failing=False)
    assert exchanged.target_fails
    exchanged = outbox.OutboxBatch(notification.pk, MINE, [outcome(row, 200)])
    exchanged.run(include_failing=False)
    assert not exchanged.target_fails


@pytest.mark.django_db(transaction=True)
def test_workers_that_take_and_write_back_at_once_send_each_delivery_once() -> None:
    notification = create_notification()
    emitted = [emit_test(notification).pk for _ in range(60)]
    on_their_way: list[int] = []
    most: list[int] = []
    sent: list[int] = []

    def work() -> None:
        lease = uuid.uuid4()
        outcomes: list[Outcome] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(sent) < len(emitted) and time.monotonic() < deadline:
            rows = exchange(notification, *outcomes, lease=lease, room=8)
            on_their_way.extend(row.pk for row in rows)
            most.append(len(on_their_way))
            time.sleep(0.005)
            for row in rows:
                sent.append(row.pk)
                on_their_way.remove(row.pk)
            outcomes = [outcome(row) for row in rows]
        exchange(notification, *outcomes, lease=lease, room=0)

    in_threads(*[work] * 4)
    assert sorted(sent) == emitted
    assert max(most) <= 8
    assert set(Delivery.objects.values_list("state", "attempts_made", "lease")) == {("delivered", 1, None)}


@pytest.mark.django_db(transaction=True)
def test_an_event_is_emitted_while_a_worker_has_the_target_locked() -> None:
    notification = create_notification()
    emit_test(notification)
    locked, emitted = threading.Event(), threading.Event()
    waited = []

    def work() -> None:
        with transaction.atomic():
            exchange(notification)
            locked.set()
            # SQLite has one writer at a time: the emitter waits there, and does not fail.
            waited.append(emitted.wait(PATIENCE_SECONDS if connection.vendor == "postgresql" else 0.5))

    def emitter() -> None:
        locked.wait(PATIENCE_SECONDS)
        emit_test(notification)
        emitted.set()

    in_threads(work, emitter)
    assert waited == [connection.vendor == "postgresql"]
    assert Delivery.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_worker_with_nothing_to_write_does_not_wait_for_a_locked_target() -> None:
    notification = create_notification()
    emit_test(notification)
    locked, taken = threading.Event(), threading.Event()
    results = []

    def holder() -> None:
        with transaction.atomic():
            Notification.objects.select_for_update(no_key=True).get()
            locked.set()
            taken.wait(PATIENCE_SECONDS if connection.vendor == "postgresql" else 0.5)

    def taker() -> None:
        locked.wait(PATIENCE_SECONDS)
        results.append(exchange(notification))
        taken.set()

    in_threads(holder, taker)
    # SQLite has no locks of rows: the exchange waits for the other's transaction, and then claims.
    assert [len(rows) for rows in results] == [0 if connection.vendor == "postgresql" else 1]


@pytest.mark.django_db(transaction=True)
def test_what_a_target_answered_is_noted_even_if_it_is_locked_at_that_moment() -> None:
    notification = create_notification()
    emit_test(notification)
    (row,) = exchange(notification, lease=MINE)
    locked = threading.Event()

    def holder() -> None:
        with transaction.atomic():
            Notification.objects.select_for_update(no_key=True).get()
            locked.set()
            time.sleep(0.5)

    def writer() -> None:
        locked.wait(PATIENCE_SECONDS)
        exchange(notification, outcome(row, 410), lease=MINE)

    in_threads(holder, writer)
    notification.refresh_from_db()
    assert notification.gone_at is not None
