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


@pytest.mark.parametrize("state", State.values)
def test_a_retry_brings_what_is_pending_forward_and_counts_on(
    state: str, notification: Notification, clock: Clock
) -> None:
    row = row_in(state, notification)
    before = values(row)
    clock.forward(60)
    is_pending = state == State.PENDING
    assert retry_now(Delivery.objects.all()) == is_pending
    assert values(row) == before | ({"due_at": clock.now} if is_pending else {})
    assert pushed() == ([notification.pk] if is_pending else [])


@pytest.mark.parametrize("again", [replay, retry_now])
def test_what_is_on_its_way_is_left_alone_until_its_lease_ends(
    again: Any, notification: Notification, clock: Clock
) -> None:
    emit_test(notification)
    (row,) = exchange(notification, lease=LEASE)
    queue.flush()
    before = values(row)
    assert (again(Delivery.objects.all()), pushed()) == (0, [])
    assert values(row) == before
    # Its worker was killed.
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


def test_only_what_was_chosen_is_replayed_and_each_target_pushed_once(notification: Notification) -> None:
    other = create_notification(identifier="other")
    chosen = [row_in(State.FAILED, target) for target in (notification, other, notification)]
    kept = row_in(State.FAILED, notification)
    before = values(kept)
    assert (replay(Delivery.objects.none()), retry_now(Delivery.objects.none()), pushed()) == (0, 0, [])
    assert replay(Delivery.objects.filter(pk__in=[row.pk for row in chosen]).order_by("-id")) == 3
    assert values(kept) == before
    assert sorted(pushed()) == [notification.pk, other.pk]
