"""When messages are sent, by whom, and how often."""

from __future__ import annotations

from datetime import datetime, time, timedelta

import pytest

from incidents import delivery, tasks
from incidents.models import AlertMessage, AlertRoute
from relayer_service.models import PeriodicRun
from tests.concurrency import in_threads
from tests.conftest import Log
from tests.incidents.factories import incident, message, route
from tests.incidents.fleet import node_down, relayers
from tests.notifications.clock import NOON, Clock
from tests.notifications.receivers import answer, in_turn, receiver

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def states(route: AlertRoute) -> list[tuple[str, str]]:
    return list(AlertMessage.objects.filter(route=route).order_by("pk").values_list("event", "state"))


def tick(clock: Clock, seconds: int) -> None:
    for _ in range(seconds // 5):
        clock.forward(5)
        delivery.send_due()


def test_messages_about_one_cause_are_a_minute_apart_and_others_are_not(clock: Clock) -> None:
    with receiver() as server:
        ops, first, second = route(url=server.url), incident(), incident(key="stuck:hardhat", kind="stuck")
        for event in ("began", "grew", "ended"):
            message(ops, first, event)
        message(ops, second)
        delivery.send_due()
        assert len(server.requests) == 2
        tick(clock, 55)
        assert len(server.requests) == 2
        tick(clock, 5)
        assert len(server.requests) == 3
        # Another incident of the cause waits, too.
        first.ended_at = clock.now
        first.save()
        message(ops, incident(), "began")
        tick(clock, 55)
        assert len(server.requests) == 3
        tick(clock, 125)
    assert len(server.requests) == 5


def test_a_failed_attempt_is_repeated_in_order_until_it_succeeds(clock: Clock) -> None:
    with receiver(in_turn(answer(500), answer(500), answer())) as server:
        ops, made = route(url=server.url), incident()
        message(ops, made)
        message(ops, made, "ended")
        delivery.send_due()
        tick(clock, 55)
        assert (len(server.requests), states(ops)) == (1, [("began", "pending"), ("ended", "pending")])
        tick(clock, 5)
        tick(clock, 115)
        assert len(server.requests) == 2
        tick(clock, 5)
        assert states(ops) == [("began", "sent"), ("ended", "pending")]
        tick(clock, 60)
    assert states(ops) == [("began", "sent"), ("ended", "sent")]


def test_a_message_fails_after_a_day_of_attempts(clock: Clock) -> None:
    with receiver() as server:
        ops = route(url=server.url)
    message(ops, incident())
    attempts = 0
    while AlertMessage.objects.get().state == "pending":
        delivery.send_due()
        attempts += 1
        clock.forward(7_200)
    found = AlertMessage.objects.get()
    assert (found.state, found.error, attempts) == ("failed", "Connection failed.", len(delivery.RETRY_MINUTES) + 1)
    assert DAY <= timedelta(minutes=sum(delivery.RETRY_MINUTES)) <= 1.1 * DAY


def test_what_a_killed_worker_had_claimed_is_due_again_after_more_than_a_minute(clock: Clock) -> None:
    with receiver() as server:
        ops = route(url=server.url)
        message(ops, incident())
        assert len(delivery.claim(ops.pk)) == 1
        tick(clock, 60)
        assert server.requests == []
        tick(clock, 60)
    assert (len(server.requests), AlertMessage.objects.get().attempts) == (1, 2)


def test_an_outcome_that_comes_after_the_lease_changes_nothing(clock: Clock) -> None:
    ops = route()
    message(ops, incident())
    (late,) = delivery.claim(ops.pk)
    clock.forward(120)
    (again,) = delivery.claim(ops.pk)
    delivery.write_outcome(late, "")
    assert AlertMessage.objects.get().state == "pending"
    delivery.write_outcome(again, "")
    assert AlertMessage.objects.get().state == "sent"


def test_a_message_that_was_left_out_meanwhile_is_not_claimed(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = route()
    message(ops, incident())
    stale = delivery.sendable(ops, NOON)
    AlertMessage.objects.update(state="skipped", due_at=None)
    monkeypatch.setattr(delivery, "sendable", lambda route, now: stale)
    assert delivery.claim(ops.pk) == []
    assert states(ops) == [("began", "skipped")]


@pytest.mark.django_db(transaction=True)
def test_many_workers_send_a_message_once(clock: Clock) -> None:
    with receiver() as server:
        ops = route(url=server.url)
        message(ops, incident())
        in_threads(*[delivery.send_due] * 4)
        assert (len(server.requests), states(ops)) == (1, [("began", "sent")])


@pytest.mark.parametrize(
    ("moment", "zone", "quiet"),
    [
        ("2026-01-01T21:59", "UTC", False),
        ("2026-01-01T22:00", "UTC", True),
        ("2026-01-02T06:59", "UTC", True),
        ("2026-01-02T07:00", "UTC", False),
        ("2026-01-01T21:00", "Europe/Berlin", True),
        ("2026-07-01T20:00", "Europe/Berlin", True),
        ("2026-07-01T05:00", "Europe/Berlin", False),
    ],
)
def test_quiet_hours_are_in_their_time_zone(moment: str, zone: str, quiet: bool) -> None:
    ops = route(quiet_from=time(22), quiet_until=time(7), time_zone=zone)
    assert ops.is_quiet(datetime.fromisoformat(f"{moment}+00:00")) is quiet


def test_alerts_wait_for_the_end_of_quiet_hours_unless_they_are_severe(clock: Clock) -> None:
    with receiver() as server:
        hours = {"quiet_from": time(12), "quiet_until": time(13)}
        calm = route("calm", server.url, **hours)
        silent = route("silent", server.url, **hours, severe_passes=False)
        mild = incident(severe=False)
        for each in (calm, silent):
            message(each, mild)
            message(each, incident(key="stuck:hardhat", kind="stuck", ended_at=NOON))
        delivery.send_due()
        assert len(server.requests) == 1
        delivery.send_test(silent)
        delivery.send_due()
        assert len(server.requests) == 2
        clock.forward(3_599)
        delivery.send_due()
        assert len(server.requests) == 2
        clock.forward(1)
        delivery.send_due()
    assert len(server.requests) == 5


def test_a_time_zone_that_is_gone_is_utc_and_a_broken_route_stops_no_other(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    assert route(quiet_from=time(11), quiet_until=time(13), time_zone="Mars/Olympus").is_quiet(NOON)
    with receiver() as hook:
        broken, works = route("broken", hook.url), route("works", hook.url)
        for each in (broken, works):
            message(each, incident(key=each.identifier))
        read = delivery.sendable

        def sendable(each: AlertRoute, now: datetime) -> list[AlertMessage]:
            if each == broken:
                raise ValueError("broken")
            return read(each, now)

        monkeypatch.setattr(delivery, "sendable", sendable)
        delivery.send_due()
        assert len(hook.requests) == 1


def test_nothing_is_sent_by_a_disabled_route_until_it_is_enabled(clock: Clock) -> None:
    with receiver() as server:
        ops = route(url=server.url, enabled=False)
        message(ops, incident())
        delivery.send_due()
        assert server.requests == []
        AlertRoute.objects.update(enabled=True)
        delivery.send_due()
    assert len(server.requests) == 1


def test_private_addresses_and_redirects_are_refused(clock: Clock, settings: object) -> None:
    with receiver(answer(302, headers={"Location": "http://169.254.169.254/latest"})) as server:
        message(route(url=server.url), incident())
        delivery.send_due()
        assert AlertMessage.objects.get().error == "Returned HTTP 302."
        settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = []  # type: ignore[attr-defined]
        clock.forward(60)
        delivery.send_due()
    assert (AlertMessage.objects.get().error, len(server.requests)) == ("The address or port is not allowed.", 1)


def test_no_secret_is_in_the_log_or_in_an_error(clock: Clock, log: Log) -> None:
    with receiver(answer(500)) as server:
        ops = route(url=f"{server.url}/s3cr3t-path", channel="opsgenie", secret="s3cr3t-key")
        message(ops, incident())
        delivery.send_due()
    message(route("closed", f"{server.url}/s3cr3t-path", channel="slack"), incident(key="other"))
    delivery.send_due()
    text = f"{log.text} {list(AlertMessage.objects.values())} {ops!r}"
    assert "Returned HTTP 500." in text
    assert "Connection failed." in text
    assert "s3cr3t" not in text


@pytest.mark.django_db(transaction=True)
def test_without_a_worker_web_processes_open_incidents_and_send(clock: Clock) -> None:
    PeriodicRun.objects.create(name="heartbeat", slot=1, started_at=NOON, finished_at=NOON)
    relayers(1)
    node_down(clock)
    with receiver() as server:
        route(url=server.url, kinds=["silent_worker"])
        tasks.alert_without_worker()
        assert not AlertMessage.objects.exists()
        for _ in range(9):
            clock.forward(10)
            tasks.alert_without_worker()
    assert len(server.requests) == 1
    assert AlertMessage.objects.get().data["summary"] == "Failing part of the service: worker, 1 part"
