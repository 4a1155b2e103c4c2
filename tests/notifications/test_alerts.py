"""What other targets are told of one that fails or is gone, and that it never grows into a storm."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.utils import timezone
from pytest_django import Settings

from notifications.delivery import alerts
from notifications.delivery.posting import Outcome
from notifications.events import ABOUT_TARGETS
from notifications.models import Delivery, Notification
from notifications.subscriptions import EVERYTHING
from tests.notifications.clock import NOON, Clock
from tests.notifications.factories import create_notification, emit_test, exchange, outcome

pytestmark = pytest.mark.django_db

MINE = uuid.UUID(int=1)
ANSWERED = {"notification_id": "a", "failing_since": "2026-01-01T12:00:00.000000Z", "error": "Returned HTTP 500."}


@pytest.fixture(autouse=True)
def schedule(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEBHOOK_SCHEDULE = [0, 5, 300]
    monkeypatch.setattr("notifications.delivery.posting.JITTER", 0)


def target(name: str) -> Notification:
    return create_notification(identifier=name, events=EVERYTHING)


def attempt(notification: Notification, code: int) -> None:
    """Send a target whatever is due for it, or a test event where nothing is, and have it answer with this status."""
    rows = exchange(notification, lease=MINE, include_failing=True)
    if not rows:
        emit_test(notification)
        rows = exchange(notification, lease=MINE, include_failing=True)
    exchange(notification, *[outcome(row, code) for row in rows], lease=MINE)


def told() -> list[tuple[str, str, Any]]:
    """Return what targets were told of others: who, of which event, with which data."""
    rows = Delivery.objects.filter(event__in=ABOUT_TARGETS).order_by("pk").select_related("notification")
    return [(row.notification.identifier, row.event, orjson.loads(bytes(row.body))["data"]) for row in rows]


def test_the_others_are_told_once_that_a_target_fails(clock: Clock) -> None:
    failing, _, _ = target("a"), target("b"), target("c")
    for _ in range(3):
        attempt(failing, 500)
        clock.forward(2 * 60 * 60)
    assert told() == [("b", "notification.failing", ANSWERED), ("c", "notification.failing", ANSWERED)]


def test_the_others_are_told_once_that_a_target_is_gone_and_not_that_it_fails_too(clock: Clock) -> None:
    gone, _ = target("a"), target("b")
    for _ in range(3):
        emit_test(gone)
    rows = exchange(gone, lease=MINE)
    exchange(gone, outcome(rows[0], 410), lease=MINE)
    clock.forward(1)
    exchange(gone, outcome(rows[1], 410), outcome(rows[2], 410), lease=MINE)
    assert told() == [("b", "notification.gone", {"notification_id": "a"})]
    gone.refresh_from_db()
    assert gone.gone_at == NOON


@pytest.mark.parametrize("state", [{"failing_since": NOON}, {"gone_at": NOON}, {"enabled": False}])
def test_targets_that_get_nothing_now_are_not_told_until_they_get_events_again(
    state: dict[str, Any], clock: Clock
) -> None:
    failing, other = target("a"), target("b")
    Notification.objects.filter(pk=other.pk).update(**state)
    attempt(failing, 500)
    assert told() == []
    Notification.objects.filter(pk=other.pk).update(failing_since=None, gone_at=None, enabled=True)
    clock.forward(5)
    attempt(failing, 500)
    assert told() == [("b", "notification.failing", ANSWERED)]


def test_two_targets_that_fail_do_not_go_on_telling_each_other(clock: Clock) -> None:
    one, two = target("a"), target("b")
    attempt(one, 500)
    for code in (500, 200, 500, 200, 500):
        # Each gets what it was told of the other, and nothing else.
        for each in (two, one):
            for row in exchange(each, lease=MINE, include_failing=True):
                exchange(each, outcome(row, code), lease=MINE)
        clock.forward(2 * 60 * 60)
    assert told() == [("b", "notification.failing", ANSWERED)]


def test_a_target_that_fails_at_such_an_event_alone_is_not_told_of(clock: Clock) -> None:
    one, two = target("a"), target("b")
    attempt(one, 500)
    clock.forward(5)
    attempt(one, 200)
    attempt(two, 500)
    assert told() == [("b", "notification.failing", ANSWERED)]
    two.refresh_from_db()
    assert two.failing_since is not None


def test_a_target_that_comes_and_goes_is_told_of_once_an_hour(clock: Clock) -> None:
    flapping, _ = target("a"), target("b")
    for _ in range(5):
        attempt(flapping, 500)
        clock.forward(5)
        attempt(flapping, 200)
        clock.forward(10 * 60)
    # Minutes 0, 10, 20, 30, 40 and 50.
    attempt(flapping, 500)
    assert len(told()) == 1
    clock.forward(10 * 60)
    # It began to fail within the hour, and is told of when the hour is over.
    attempt(flapping, 500)
    assert [data["failing_since"] for _, _, data in told()] == [
        "2026-01-01T12:00:00.000000Z",
        "2026-01-01T12:50:25.000000Z",
    ]


def test_that_a_target_is_gone_is_told_whatever_it_was_sent(clock: Clock) -> None:
    failing, gone, _ = target("a"), target("b"), target("c")
    attempt(failing, 500)
    attempt(gone, 410)
    assert told()[2:] == [("c", "notification.gone", {"notification_id": "b"})]


def test_no_more_than_so_many_are_told(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "MAX_ALERTED", 2)
    failing, *_ = [target(name) for name in "abcde"]
    attempt(failing, 500)
    assert [name for name, _, _ in told()] == ["b", "c"]


def test_what_is_not_written_is_not_told(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    failing, _ = target("a"), target("b")
    emit_test(failing)
    (row,) = exchange(failing, lease=MINE)

    def fail(*args: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("notifications.delivery.outbox.OutboxBatch._claim", fail)
    failed: Outcome = outcome(row, 500)
    with pytest.raises(RuntimeError):
        exchange(failing, failed, lease=MINE)
    assert told() == []


@pytest.mark.parametrize("skew", [timedelta(hours=-2), timedelta(hours=2)])
def test_a_worker_with_a_wrong_clock_announces_each_failure_once(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, skew: timedelta
) -> None:
    monkeypatch.setattr(timezone, "now", lambda: clock() + skew)
    flapping, _ = target("a"), target("b")
    for code in (500, 200, 500, 500):
        attempt(flapping, code)
        clock.forward(61 * 60)
    assert [data["failing_since"] for _, _, data in told()] == [
        "2026-01-01T12:00:00.000000Z",
        "2026-01-01T14:02:00.000000Z",
    ]
