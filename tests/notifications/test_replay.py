"""Replay and retry by hand."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest

from notifications.models import Attempt, Delivery, Notification
from notifications.replay import replay, retry_now
from relayer_service.background.tasks import queue
from tests.notifications.clock import NOON, Clock
from tests.notifications.factories import create_notification, emit_test, exchange, outcome

pytestmark = pytest.mark.django_db(transaction=True)

LEASE = uuid.UUID(int=1)
State = Delivery.State


@pytest.fixture
def notification(clock: Clock) -> Notification:
    return create_notification()


def row_in(state: str, notification: Notification) -> Delivery:
    """A delivery that was tried three times, and is in this state since."""
    row = emit_test(notification)
    due_at = NOON + timedelta(hours=1) if state == State.PENDING else None
    Delivery.objects.filter(pk=row.pk).update(
        state=state, due_at=due_at, attempts_made=3, response_code=500, error="an error", attempted_at=NOON
    )
    queue.flush()
    return row


def values(row: Delivery) -> dict[str, Any]:
    return dict(Delivery.objects.values().get(pk=row.pk))


def pushed() -> list[Any]:
    return [task.args[0] for task in queue.pending()]


@pytest.mark.parametrize("state", State.values)
def test_a_replay_begins_the_schedule_anew_with_the_same_id_and_body(
    state: str, notification: Notification, clock: Clock
) -> None:
    row = row_in(state, notification)
    before = values(row)
    clock.forward(60)
    assert replay(Delivery.objects.all()) == 1
    assert values(row) == before | {"state": "pending", "due_at": clock.now, "attempts_made": 0}
    assert pushed() == [notification.pk]
    (again,) = exchange(notification)
    assert (again.identifier, bytes(again.body)) == (row.identifier, bytes(row.body))


def test_the_attempts_before_a_replay_are_kept(notification: Notification) -> None:
    emit_test(notification)
    for code in (200, 500):
        (row,) = exchange(notification, lease=LEASE)
        exchange(notification, outcome(row, code), lease=LEASE, room=0)
        replay(Delivery.objects.all())
    assert list(Attempt.objects.values_list("response_code", flat=True)) == [200, 500]


def test_a_retry_brings_what_is_pending_forward_and_counts_on(notification: Notification, clock: Clock) -> None:
    row = row_in(State.PENDING, notification)
    before = values(row)
    clock.forward(60)
    assert retry_now(Delivery.objects.all()) == 1
    assert values(row) == before | {"due_at": clock.now}
    assert pushed() == [notification.pk]


@pytest.mark.parametrize("state", [State.DELIVERED, State.FAILED])
def test_a_retry_leaves_alone_what_is_not_pending(state: str, notification: Notification) -> None:
    row = row_in(state, notification)
    before = values(row)
    assert retry_now(Delivery.objects.all()) == 0
    assert values(row) == before
    assert pushed() == []


@pytest.mark.parametrize("again", [replay, retry_now])
def test_what_is_on_its_way_is_left_alone(again: Any, notification: Notification, clock: Clock) -> None:
    emit_test(notification)
    (row,) = exchange(notification, lease=LEASE)
    queue.flush()
    before = values(row)
    assert again(Delivery.objects.all()) == 0
    assert values(row) == before
    assert pushed() == []


@pytest.mark.parametrize("again", [replay, retry_now])
def test_what_a_killed_worker_left_is_sent_again(again: Any, notification: Notification, clock: Clock) -> None:
    emit_test(notification)
    (row,) = exchange(notification, lease=LEASE)
    clock.forward(60)
    assert again(Delivery.objects.all()) == 1
    assert (values(row)["lease"], values(row)["due_at"]) == (None, clock.now)


@pytest.mark.parametrize("again", [replay, retry_now])
def test_a_target_that_was_gone_is_tried_again(again: Any, notification: Notification) -> None:
    other = create_notification(identifier="other")
    Notification.objects.update(gone_at=NOON)
    row = row_in(State.PENDING, notification)
    again(Delivery.objects.all())
    notification.refresh_from_db()
    other.refresh_from_db()
    assert (notification.gone_at, other.gone_at) == (None, NOON)
    assert exchange(notification) == [row]


def test_only_what_was_chosen_is_replayed(notification: Notification) -> None:
    chosen, other = row_in(State.FAILED, notification), row_in(State.FAILED, notification)
    before = values(other)
    assert replay(Delivery.objects.filter(pk=chosen.pk).order_by("-id")) == 1
    assert values(other) == before


def test_each_target_of_many_deliveries_is_pushed_once(notification: Notification) -> None:
    other = create_notification(identifier="other")
    for target in (notification, other, notification):
        row_in(State.FAILED, target)
    assert replay(Delivery.objects.order_by("-created_at")) == 3
    assert sorted(pushed()) == [notification.pk, other.pk]


def test_nothing_chosen_is_nothing_done(notification: Notification) -> None:
    assert (replay(Delivery.objects.none()), retry_now(Delivery.objects.none())) == (0, 0)
    assert pushed() == []
