"""What is written of an attempt: on its delivery, in the log of attempts, and on its target."""

from __future__ import annotations

import logging
import uuid
from datetime import timedelta
from operator import attrgetter
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries, Settings

from notifications.delivery import outbox
from notifications.models import Attempt, Delivery, Notification
from notifications.replay import replay
from relayer_service.observability import logs, metrics
from tests.conftest import Log
from tests.notifications.clock import NOON, Clock
from tests.notifications.factories import create_notification, emit_test, exchange, outcome
from tests.relayer_service.observability.test_metrics import samples

pytestmark = [pytest.mark.django_db, pytest.mark.both_engines]

MINE = uuid.UUID(int=1)
OTHERS = uuid.UUID(int=2)


@pytest.fixture(autouse=True)
def schedule(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEBHOOK_SCHEDULE = [0, 5, 300]
    monkeypatch.setattr("notifications.delivery.posting.JITTER", 0)


def taken(notification: Notification) -> Delivery:
    """A delivery on its way."""
    emit_test(notification)
    (row,) = exchange(notification, lease=MINE, include_failing=True)
    return row


def state(row: Delivery) -> dict[str, Any]:
    names = ("state", "attempts_made", "response_code", "error", "attempted_at", "due_at", "lease")
    return dict(Delivery.objects.values(*names).get(pk=row.pk))


def health(notification: Notification) -> tuple[Any, Any]:
    notification.refresh_from_db()
    return notification.failing_since, notification.gone_at


def test_a_success_ends_a_delivery_and_forgets_the_error(clock: Clock) -> None:
    notification = create_notification()
    row = taken(notification)
    exchange(notification, outcome(row, 500), lease=MINE)
    clock.forward(5)
    (row,) = exchange(notification, lease=MINE, include_failing=True)
    came = outcome(row, 204, answer="thanks", error="")
    clock.forward(3)
    exchange(notification, came, lease=MINE)
    started = NOON + timedelta(seconds=5)
    ended = {"due_at": None, "lease": None, "attempts_made": 2, "attempted_at": started}
    assert state(row) == {"state": "delivered", "response_code": 204, "error": "", **ended}
    _, attempt = Attempt.objects.order_by("pk").values()
    assert attempt == {
        "id": attempt["id"],
        "delivery_id": row.pk,
        "started_at": started,
        "milliseconds": 12,
        "response_code": 204,
        "answer": "thanks",
        "error": "",
        "signature": "",
    }
    assert health(notification) == (None, None)
    assert outbox.due_targets() == []


@pytest.mark.parametrize(("code", "error"), [(500, "Returned HTTP 500."), (None, "No response in time.")])
def test_a_failure_puts_a_delivery_back_after_the_wait_of_the_schedule(
    clock: Clock, code: int | None, error: str
) -> None:
    notification = create_notification()
    row = taken(notification)
    came = outcome(row, code, answer="oops", error=error)
    clock.forward(3)
    exchange(notification, came, lease=MINE)
    again = {"due_at": NOON + timedelta(seconds=8), "lease": None, "attempts_made": 1, "attempted_at": NOON}
    assert state(row) == {"state": "pending", "response_code": code, "error": error, **again}
    assert Attempt.objects.values_list("response_code", "answer", "error").get() == (code, "oops", error)
    assert health(notification) == (NOON, None)
    clock.forward(4.999)
    assert outbox.due_targets() == []
    clock.forward(0.001)
    assert outbox.due_targets() == [notification.pk]


def test_the_last_failure_gives_a_delivery_up_and_keeps_it(clock: Clock) -> None:
    notification = create_notification()
    row = taken(notification)
    for _ in range(2):
        exchange(notification, outcome(row, 500), lease=MINE)
        clock.forward(300)
        (row,) = exchange(notification, lease=MINE, include_failing=True)
    exchange(notification, outcome(row, 503, retry_after=timedelta(seconds=60)), lease=MINE)
    ended = {"due_at": None, "lease": None, "attempts_made": 3, "attempted_at": clock.now}
    assert state(row) == {"state": "failed", "response_code": 503, "error": "Returned HTTP 503.", **ended}
    assert list(Attempt.objects.values_list("response_code", flat=True)) == [500, 500, 503]
    clock.forward(10**6)
    assert outbox.due_targets() == []


def test_many_outcomes_of_one_turn_are_each_written_onto_their_own_delivery(clock: Clock) -> None:
    notification = create_notification()
    for _ in range(5):
        emit_test(notification)
    rows = sorted(exchange(notification, lease=MINE), key=attrgetter("pk"))
    codes = [200, 500, 204, 200, None]
    outcomes = []
    for row, code in zip(rows, codes, strict=True):
        outcomes.append(outcome(row, code))
        clock.forward(1)
    exchange(notification, *outcomes, lease=MINE)
    found = Delivery.objects.order_by("id").values_list("state", "response_code", "attempts_made", "attempted_at")
    assert list(found) == [
        ("delivered", 200, 1, NOON),
        ("pending", 500, 1, NOON + timedelta(seconds=1)),
        ("delivered", 204, 1, NOON + timedelta(seconds=2)),
        ("delivered", 200, 1, NOON + timedelta(seconds=3)),
        ("pending", None, 1, NOON + timedelta(seconds=4)),
    ]
    assert list(Attempt.objects.order_by("delivery_id").values_list("response_code", flat=True)) == codes


def test_a_turn_of_many_successes_costs_as_many_queries_as_one(
    clock: Clock, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    notification = create_notification()
    for _ in range(64):
        emit_test(notification)
    rows = exchange(notification, lease=MINE)
    assert len(rows) == 64
    # The transaction's two, the deliveries, the attempts, the target, what others hold, and what is due.
    with django_assert_max_num_queries(8):
        exchange(notification, *[outcome(row) for row in rows], lease=MINE)


def test_a_target_that_asks_for_patience_gets_it(clock: Clock) -> None:
    notification = create_notification()
    for asked, waited in {2: 5, 60: 60, 10**7: 86_400}.items():
        row = taken(notification)
        exchange(notification, outcome(row, 429, retry_after=timedelta(seconds=asked)), lease=MINE)
        assert state(row)["due_at"] == NOON + timedelta(seconds=waited)


@pytest.mark.parametrize("code", [200, 500, 410])
def test_an_attempt_whose_lease_was_lost_changes_nothing_on_the_delivery(code: int, clock: Clock) -> None:
    notification = create_notification()
    row = taken(notification)
    clock.forward(60)
    exchange(notification, lease=OTHERS)
    before = state(row)
    outbox.write_outcomes([outcome(row, code)])
    assert state(row) == before
    assert before["lease"] == OTHERS
    # It was made all the same.
    assert Attempt.objects.values_list("delivery", "response_code").get() == (row.pk, code)


def test_an_attempt_that_ends_after_a_replay_changes_nothing(clock: Clock) -> None:
    notification = create_notification()
    row = taken(notification)
    clock.forward(60)
    assert replay(Delivery.objects.all()) == 1
    before = state(row)
    outbox.write_outcomes([outcome(row, 200)])
    assert state(row) == before


def test_410_stops_a_target_of_which_all_that_is_due_fails_without_an_attempt(clock: Clock) -> None:
    notification = create_notification()
    retried = taken(notification)
    exchange(notification, outcome(retried, 500), lease=MINE)
    row = taken(notification)
    waiting = emit_test(notification)
    exchange(notification, outcome(row, 410), lease=MINE)
    assert health(notification) == (NOON, NOON)
    never = {"due_at": None, "lease": None, "attempted_at": None, "response_code": None, "attempts_made": 0}
    failed = {"due_at": None, "lease": None, "attempted_at": NOON, "response_code": 410, "attempts_made": 1}
    assert state(row) == {"state": "failed", "error": "Returned HTTP 410.", **failed}
    assert state(waiting) == {"state": "failed", "error": "Not sent: the webhook returned 410 Gone.", **never}
    assert state(retried)["state"] == "pending"
    clock.forward(5)
    # Of an event that comes later too.
    later = emit_test(notification)
    assert outbox.due_targets() == [notification.pk]
    assert exchange(notification, include_failing=True) == []
    assert state(retried)["state"] == "failed"
    assert state(later) == {"state": "failed", "error": outbox.GONE, **never}
    assert outbox.due_targets() == []


@pytest.mark.parametrize("code", [410, 500])
def test_what_the_old_url_answered_does_not_hold_for_the_new_one(code: int, clock: Clock) -> None:
    notification = create_notification()
    late = taken(notification)
    exchange(notification, outcome(taken(notification), code), lease=MINE)
    notification.refresh_from_db()
    notification.set_url("https://hooks.example.com/new")
    notification.save()
    exchange(notification, outcome(late, code), lease=MINE)
    assert health(notification) == (None, None)
    row = emit_test(notification)
    assert exchange(notification) == [row]


def test_a_target_fails_since_its_first_failure_unless_some_attempts_succeed(clock: Clock) -> None:
    notification = create_notification()
    rows = [taken(notification) for _ in range(4)]
    exchange(notification, outcome(rows[0], 500), lease=MINE)
    clock.forward(60)
    exchange(notification, outcome(rows[1], 500), lease=MINE)
    exchange(notification)
    assert health(notification) == (NOON, None)
    exchange(notification, outcome(rows[2], 500), outcome(rows[3], 200), lease=MINE)
    assert health(notification) == (None, None)


def test_what_is_written_is_all_or_nothing(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    notification = create_notification()
    row = taken(notification)
    before = state(row)

    def fail(*args: Any) -> None:
        raise RuntimeError("the database is away")

    monkeypatch.setattr(outbox, "update_target_health", fail)
    with pytest.raises(RuntimeError):
        exchange(notification, outcome(row, 200), lease=MINE)
    assert state(row) == before
    assert not Attempt.objects.exists()


def test_each_attempt_is_logged_without_its_target_or_its_key(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    notification = create_notification(url="https://user:password@hooks.example.com/token", signing_key="a secret key")
    first, second = taken(notification), taken(notification)
    exchange(notification, outcome(first, 200), outcome(second, 500), lease=MINE)
    said = [(record.levelname, record.getMessage(), record.fields) for record in caplog.records]  # type: ignore[attr-defined]  # extra
    name = notification.identifier
    fields = {"notification": name, "event": "notification.test", "attempt": 1, "milliseconds": 12}
    assert said == [
        ("INFO", f"Webhook delivered to {name}", fields | {"delivery": first.identifier, "response_code": 200}),
        (
            "WARNING",
            f"Webhook to {name} failed: Returned HTTP 500.",
            fields | {"delivery": second.identifier, "response_code": 500},
        ),
    ]


def test_a_target_that_has_failed_again_leaves_its_place_to_others(clock: Clock) -> None:
    notification = create_notification()
    row = taken(notification)
    emit_test(notification)
    assert exchange(notification, outcome(row, 500), lease=MINE, include_failing=True) == []
    assert len(exchange(notification, lease=MINE, include_failing=True)) == 1


def test_an_attempt_is_logged_under_the_request_that_caused_it(clock: Clock, log: Log) -> None:
    notification = create_notification()
    context = logs.request_id.set("req-of-a-caller")
    row = taken(notification)
    logs.request_id.reset(context)
    assert row.request_id == "req-of-a-caller"
    in_progress = logs.request_id.set("task-of-the-worker")
    exchange(notification, outcome(row, 500), outcome(row, 204), lease=MINE)
    assert logs.request_id.get() == "task-of-the-worker"
    logs.request_id.reset(in_progress)
    assert [line["response_code"] for line in log.lines("req-of-a-caller")] == [500, 204]


def test_attempts_are_counted_by_what_becomes_of_the_delivery(clock: Clock) -> None:
    def counted() -> dict[str, float]:
        found = samples(metrics.own_exposition().decode())
        return {name: value for name, value in found.items() if name.startswith("relayer_webhook_attempt")}

    notification = create_notification()
    before = counted()
    delivered, retried, gone = (taken(notification) for _ in range(3))
    last = taken(notification)
    last.attempts_made = 2
    answers = [outcome(row, code) for row, code in ((delivered, 204), (retried, 500), (gone, 410), (last, 500))]
    exchange(notification, *answers, lease=MINE)
    grown = {name: value - before.get(name, 0) for name, value in counted().items()}
    expected = {
        "relayer_webhook_attempts_total{outcome=delivered}": 1,
        "relayer_webhook_attempts_total{outcome=retried}": 1,
        "relayer_webhook_attempts_total{outcome=failed}": 2,
        "relayer_webhook_attempt_duration_seconds_count{}": 4,
    }
    assert {name: grown[name] for name in expected} == expected
