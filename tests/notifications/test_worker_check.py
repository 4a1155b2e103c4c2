"""Reports of stopped workers: of one of several by another, of the last by a process that is no worker."""

from __future__ import annotations

import ipaddress
import json
from datetime import datetime, timedelta

import pytest
from django.core import mail
from django.utils import timezone
from huey.consumer import Consumer
from pytest_django import Settings

from notifications.delivery.alerts import report_silent_workers
from notifications.models import Delivery, Notification, mailto
from notifications.worker_check import check
from relayer_service.background.tasks import Worker, process_name
from relayer_service.models import MAX_MISSED, PeriodicRun, WorkerProcess
from tests.concurrency import in_threads
from tests.notifications.clock import NOON, Clock
from tests.notifications.factories import create_notification, emit_test, exchange
from tests.notifications.receivers import Receiver, answer, receiver

SINCE = {"stopped_since": "2026-01-01T12:00:00.000000Z"}
NONE_LEFT = {**SINCE, "worker": None, "workers_left": 0}


@pytest.fixture(autouse=True)
def loopback_is_allowed(settings: Settings) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]


def beat(moment: datetime) -> None:
    values = {"slot": 1, "started_at": moment, "finished_at": moment}
    PeriodicRun.objects.update_or_create(name="heartbeat", defaults=values)


def reported() -> list[dict[str, object]]:
    return [json.loads(bytes(delivery.body))["data"] for delivery in Delivery.objects.order_by("pk")]


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
        assert received(target) == [("worker.stopped", NONE_LEFT)]
        beat(clock.now)
        check()
        check()
    # A worker sends it.
    (resumed,) = exchange(channel)
    body = json.loads(bytes(resumed.body))
    assert (body["type"], body["data"], Delivery.objects.count()) == ("worker.resumed", SINCE, 2)


@pytest.mark.django_db(transaction=True)
def test_each_incident_is_reported_by_e_mail_without_a_worker(clock: Clock) -> None:
    Notification.objects.create(
        identifier="mail", type="email", url=mailto("ops@example.com"), events="worker.stopped"
    )
    for _ in range(2):
        beat(clock.now)
        check()
        clock.forward(60)
        check()
    assert [message.subject for message in mail.outbox] == ["[Relayers] worker.stopped"] * 2


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
def test_a_failed_report_alone_is_retried_unless_a_worker_has_claimed_it(clock: Clock) -> None:
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
        clock.forward(10**4)
        assert exchange(channel, include_failing=True)
        check()
        assert len(target.requests) == 2


@pytest.mark.django_db
def test_one_of_several_workers_that_is_killed_is_reported_once(clock: Clock) -> None:
    create_notification(events="worker.stopped")
    WorkerProcess.objects.beat("a:1")
    for number in range(MAX_MISSED + 3):
        clock.forward(10)
        WorkerProcess.objects.beat("b:2")
        assert len(reported()) == (number > MAX_MISSED)
        report_silent_workers()
    assert reported() == [{**SINCE, "worker": "a:1", "workers_left": 1}]
    assert [worker.name for worker in WorkerProcess.objects.all()] == ["b:2"]


@pytest.mark.django_db(transaction=True)
def test_workers_that_all_stopped_are_reported_together_and_those_that_beat_are_not(clock: Clock) -> None:
    create_notification(events="worker.stopped", url="http://127.0.0.1:1")
    for _ in range(2 * MAX_MISSED):
        WorkerProcess.objects.beat("a:1")
        report_silent_workers()
        report_silent_workers()
    assert reported() == []
    beat(NOON)
    clock.forward(60)
    check()
    for _ in range(MAX_MISSED + 1):
        report_silent_workers()
    assert reported() == [NONE_LEFT]


@pytest.mark.django_db
def test_a_worker_has_a_row_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    during: list[str] = []

    def run(worker: Worker) -> None:
        worker.check_worker_health()
        during.extend(WorkerProcess.objects.values_list("name", flat=True))

    monkeypatch.setattr(Consumer, "run", run)
    monkeypatch.setattr(Consumer, "check_worker_health", lambda worker: True)
    Worker().run()
    assert during == [process_name()]
    assert not WorkerProcess.objects.exists()
