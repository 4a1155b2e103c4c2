"""Events: the row that one leaves, if and only if its transaction is committed."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest
from django.db import transaction
from huey.storage import MemoryStorage

from notifications import events
from notifications.delivery.outbox import due_targets
from notifications.events import (
    DisabledReason,
    NotificationData,
    NotificationFailingData,
    RelayerBalanceData,
    RelayerData,
    RelayerDisabledData,
    emit,
)
from notifications.models import Delivery
from relayer_service.background.tasks import queue
from relayer_service.observability.logs import request_id
from tests.notifications.clock import NOON, Clock
from tests.notifications.factories import create_notification, emit_test

RELAYER = RelayerData(relayer_id="r-1", name="Größe", network="mainnet", network_type="evm")
DISABLED = RelayerDisabledData(
    relayer_id="r-1",
    name="Größe",
    network="mainnet",
    network_type="evm",
    disabled_reason=DisabledReason(type="NonceSyncFailed", details="no node answered"),
)
BALANCE = RelayerBalanceData(
    relayer_id="r-1", name="Größe", network="mainnet", network_type="evm", balance="99", min_balance="100"
)
FAILING = NotificationFailingData(
    notification_id="hook", failing_since="2026-01-01T11:00:00.000000Z", error="The target answered 500."
)


def pushed() -> list[tuple[str, Any]]:
    return [(task.name, task.args) for task in queue.pending()]


def test_the_catalogue_has_these_events() -> None:
    assert list(events.EVENTS) == [
        "relayer.disabled",
        "relayer.enabled",
        "relayer.paused",
        "relayer.resumed",
        "relayer.low_balance",
        "relayer.balance_recovered",
        "notification.test",
        "notification.failing",
        "notification.gone",
        "token.expiring",
    ]
    assert all(event.name == name and event.description for name, event in events.EVENTS.items())


@pytest.mark.django_db(transaction=True)
def test_an_event_leaves_a_delivery_that_is_due_at_once(clock: Clock) -> None:
    notification = create_notification()
    delivery = emit_test(notification)
    row = Delivery.objects.values().get()
    assert row | {"body": bytes(row["body"])} == {
        "id": delivery.pk,
        "identifier": delivery.identifier,
        "notification_id": notification.pk,
        "event": "notification.test",
        "subject": "",
        "request_id": "",
        "body": b'{"type":"notification.test","timestamp":"2026-01-01T12:00:00.000000Z",'
        b'"data":{"notification_id":"hook"}}',
        "state": "pending",
        "attempts_made": 0,
        "response_code": None,
        "error": "",
        "created_at": NOON,
        "attempted_at": None,
        "due_at": NOON,
        "lease": None,
    }
    assert due_targets() == [notification.pk]
    assert pushed() == [("deliver", (notification.pk,))]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("event", "data"),
    [
        (events.RELAYER_DISABLED, DISABLED),
        (events.RELAYER_ENABLED, RELAYER),
        (events.RELAYER_PAUSED, RELAYER),
        (events.RELAYER_RESUMED, RELAYER),
        (events.RELAYER_LOW_BALANCE, BALANCE),
        (events.RELAYER_BALANCE_RECOVERED, BALANCE),
        (events.NOTIFICATION_TEST, NotificationData(notification_id="hook")),
        (events.NOTIFICATION_FAILING, FAILING),
        (events.NOTIFICATION_GONE, NotificationData(notification_id="hook")),
    ],
)
def test_the_body_of_an_event_is_its_type_its_time_and_its_data(event: Any, data: Any, clock: Clock) -> None:
    emit(event, create_notification(), data)
    body = bytes(Delivery.objects.get().body)
    assert orjson.loads(body) == {"type": event.name, "timestamp": "2026-01-01T12:00:00.000000Z", "data": data}
    assert set(data) == set(event.data.__annotations__)


@pytest.mark.django_db
def test_every_event_has_an_id_of_its_own() -> None:
    notification = create_notification()
    identifiers = {emit_test(notification).identifier for _ in range(100)}
    assert len(identifiers) == 100
    # A dot would be ambiguous in what is signed.
    assert all(identifier.startswith("msg_") and "." not in identifier for identifier in identifiers)


@pytest.mark.django_db(transaction=True)
def test_a_change_that_is_rolled_back_sends_nothing() -> None:
    notification = create_notification()
    with transaction.atomic():
        emit_test(notification)
        transaction.set_rollback(True)
    assert not Delivery.objects.exists()
    assert due_targets() == []
    assert pushed() == []


@pytest.mark.django_db(transaction=True)
def test_a_part_that_is_rolled_back_sends_nothing_and_the_rest_is_sent() -> None:
    notification = create_notification()
    with transaction.atomic():
        kept = emit_test(notification)
        with transaction.atomic():
            emit_test(notification)
            transaction.set_rollback(True)
        assert pushed() == []
    assert list(Delivery.objects.all()) == [kept]
    assert pushed() == [("deliver", (notification.pk,))]


@pytest.mark.django_db(transaction=True)
def test_an_event_is_found_by_the_sweep_when_the_queue_was_down(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(MemoryStorage):
        def enqueue(self, data: bytes, priority: float | None = None) -> None:
            raise ConnectionError("the queue is away")

    monkeypatch.setattr(queue, "storage", Broken("tests"))
    notification = create_notification()
    with transaction.atomic():
        emit_test(notification)
    assert due_targets() == [notification.pk]
    said = [record.levelno for record in caplog.records if record.name == "django.db.backends.base"]
    assert said == [logging.ERROR]


@pytest.mark.django_db
def test_the_sweep_finds_each_target_once_and_only_what_is_due(clock: Clock) -> None:
    first, second, third = (create_notification(identifier=name) for name in ("first", "second", "third"))
    for notification in (first, first, second):
        emit_test(notification)
    clock.forward(60)
    emit_test(third)
    clock.forward(-30)
    assert sorted(due_targets()) == [first.pk, second.pk]
    clock.forward(30)
    assert sorted(due_targets()) == [first.pk, second.pk, third.pk]


@pytest.mark.django_db
def test_many_events_have_the_id_of_their_request() -> None:
    notification = create_notification()
    context = request_id.set("req-1")
    events.emit_each(events.RELAYER_PAUSED, [(notification.pk, True, RELAYER)] * 2)
    request_id.reset(context)
    assert list(Delivery.objects.values_list("request_id", flat=True)) == ["req-1", "req-1"]
