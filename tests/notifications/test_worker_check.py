"""Reports that no worker is running: once, sent by a process that is no worker."""

from __future__ import annotations

import ipaddress
import json
from datetime import datetime, timedelta

import pytest
from django.core import mail
from django.utils import timezone
from pytest_django import Settings

from notifications.models import Delivery, Notification, mailto
from notifications.worker_check import check
from relayer_service.models import PeriodicRun
from tests.concurrency import in_threads
from tests.notifications.clock import NOON, Clock
from tests.notifications.factories import create_notification, emit_test, exchange
from tests.notifications.receivers import Receiver, answer, receiver

SINCE = {"stopped_since": "2026-01-01T12:00:00.000000Z"}


@pytest.fixture(autouse=True)
def loopback_is_allowed(settings: Settings) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]


def beat(moment: datetime) -> None:
    values = {"slot": 1, "started_at": moment, "finished_at": moment}
    PeriodicRun.objects.update_or_create(name="heartbeat", defaults=values)


def received(target: Receiver) -> list[tuple[str, dict[str, str]]]:
    bodies = [json.loads(request.body) for request in target.requests]
    return [(body["type"], body["data"]) for body in bodies]


@pytest.mark.django_db(transaction=True)
def test_stopped_workers_are_reported_once_and_that_one_is_back(clock: Clock) -> None:
    with receiver() as target:
        channel = create_notification(url=target.url, events="worker.*")
        create_notification(identifier="other")
        check()
        beat(NOON)
        clock.forward(40)
        check()
        assert received(target) == []
        clock.forward(1)
        check()
        check()
        assert received(target) == [("worker.stopped", SINCE)]
        beat(clock.now)
        check()
        check()
    # A worker sends it.
    (resumed,) = exchange(channel)
    body = json.loads(bytes(resumed.body))
    assert (body["type"], body["data"], Delivery.objects.count()) == ("worker.resumed", SINCE, 2)


@pytest.mark.django_db(transaction=True)
def test_the_next_incident_is_reported_too(clock: Clock) -> None:
    create_notification(events="worker.stopped", url="http://127.0.0.1:1")
    for _ in range(2):
        beat(clock.now)
        check()
        Notification.objects.update(failing_since=None)
        clock.forward(60)
        check()
    assert Delivery.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_many_processes_report_and_send_once() -> None:
    beat(timezone.now() - timedelta(minutes=5))
    with receiver() as target:
        create_notification(url=target.url, events="worker.*")
        in_threads(*[check] * 4)
        check()
    assert [event for event, _ in received(target)] == ["worker.stopped"]
    assert Delivery.objects.get().state == "delivered"


@pytest.mark.django_db(transaction=True)
def test_a_report_is_sent_by_e_mail_without_a_worker(clock: Clock) -> None:
    beat(NOON)
    clock.forward(60)
    Notification.objects.create(identifier="mail", type="email", url=mailto("ops@example.com"), events="worker.*")
    check()
    assert [message.subject for message in mail.outbox] == ["[Relayers] worker.stopped"]


@pytest.mark.django_db(transaction=True)
def test_a_report_that_failed_is_retried_and_nothing_else_is_sent(clock: Clock) -> None:
    beat(NOON)
    clock.forward(60)
    with receiver(answer(500)) as target:
        channel = create_notification(url=target.url, events="worker.*")
        emit_test(channel)
        check()
        check()
        clock.forward(10)
        check()
    assert [event for event, _ in received(target)] == ["worker.stopped"] * 2
    assert Delivery.objects.get(event="notification.test").attempts_made == 0


@pytest.mark.django_db(transaction=True)
def test_a_report_that_a_worker_has_claimed_is_left_to_it(clock: Clock) -> None:
    beat(NOON)
    clock.forward(60)
    with receiver() as target:
        channel = create_notification(url=target.url, events="worker.*")
        emit_test(channel)
        assert exchange(channel)
        check()
        assert received(target) == []
