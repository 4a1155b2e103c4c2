"""Events: the row that one leaves, if and only if its transaction is committed."""

from __future__ import annotations

import logging
from typing import Any, get_type_hints

import orjson
import pytest
from django.db import transaction
from huey.storage import MemoryStorage

from notifications import events
from notifications.delivery.creating import Emission, create_each
from notifications.delivery.outbox import due_targets
from notifications.emitting import emit
from notifications.events import NotificationData, NotificationFailingData, all_events
from notifications.models import Delivery
from notifications.subscriptions import EVERYTHING
from relayer_service.background.tasks import queue
from relayer_service.observability.logs import request_id
from relayers import events as relayer_events
from relayers.events import DisabledReason, RelayerBalanceData, RelayerChangeData, RelayerData, RelayerDisabledData
from tests.notifications.clock import NOON, Clock
from tests.notifications.factories import create_notification, emit_test
from tokens.events import TOKEN_EXPIRING, TokenExpiringData

RELAYER = RelayerData(relayer_id="r-1", name="Größe", network="mainnet", network_type="evm")
DISABLED = RelayerDisabledData(
    relayer_id="r-1",
    name="Größe",
    network="mainnet",
    network_type="evm",
    actor="health check",
    reason="no node answered",
    disabled_reason=DisabledReason(type="NonceSyncFailed", details="no node answered"),
)
CHANGED = RelayerChangeData(**RELAYER, actor="user anna", reason="Maintenance")
BALANCE = RelayerBalanceData(
    relayer_id="r-1", name="Größe", network="mainnet", network_type="evm", balance="99", min_balance="100"
)
FAILING = NotificationFailingData(
    notification_id="hook", failing_since="2026-01-01T11:00:00.000000Z", error="Returned HTTP 500."
)
# What a chain, a node, a clock or a receiver did; all other events are about a change that somebody made.
OBSERVED = {
    *("transaction.submitted", "transaction.mined", "transaction.confirmed", "transaction.failed"),
    *("transaction.expired", "transaction.reorged", "transaction.contradicted", "relayer.nonce_used"),
    *("relayer.low_balance", "relayer.balance_recovered", "relayer.balance_runway", "price.failed", "price.recovered"),
    *("notification.test", "notification.failing", "notification.gone", "worker.stopped", "worker.resumed"),
    "token.expiring",
}
EXPIRING = TokenExpiringData(name="ci", token="rms_key", expires_at="2026-01-01T11:00:00.000000Z")


def pushed() -> list[tuple[str, Any]]:
    return [(task.name, task.args) for task in queue.pending()]


def test_the_catalogue_has_these_events() -> None:
    groups = {
        "price": "failed recovered",
        "transaction": "submitted mined confirmed failed canceled expired reorged replaced contradicted refused",
        "relayer": "held released nonce_used disabled enabled paused resumed top_up_removed low_balance "
        "balance_recovered balance_runway",
        "notification": "test failing gone",
        "worker": "stopped resumed",
        "token": "expiring",
    }
    catalogue = all_events()
    assert list(catalogue) == [f"{group}.{name}" for group, names in groups.items() for name in names.split()]
    assert all(event.name == name and event.description for name, event in catalogue.items())


def test_an_event_about_a_change_has_actor_and_reason() -> None:
    names = all_events().keys() - OBSERVED
    found = {name: get_type_hints(all_events()[name].data) for name in names}
    assert {name: (hints.get("actor"), hints.get("reason")) for name, hints in found.items()} == dict.fromkeys(
        names, (str, str)
    )


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
        "traceparent": "",
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
def test_the_body_of_an_event_is_its_type_its_time_and_its_data(clock: Clock) -> None:
    notification = create_notification(events=EVERYTHING)
    cases: list[tuple[Any, Any, str]] = [
        (relayer_events.RELAYER_DISABLED, DISABLED, "r-1"),
        (relayer_events.RELAYER_PAUSED, CHANGED, "r-1"),
        (relayer_events.RELAYER_LOW_BALANCE, BALANCE, "r-1"),
        (events.NOTIFICATION_TEST, NotificationData(notification_id="hook"), ""),
        (events.NOTIFICATION_FAILING, FAILING, ""),
        (TOKEN_EXPIRING, EXPIRING, ""),
    ]
    for event, data, subject in cases:
        emit(event, notification, data)
        delivery = Delivery.objects.latest("pk")
        assert delivery.subject == subject
        body = {"type": event.name, "timestamp": "2026-01-01T12:00:00.000000Z", "data": data}
        assert orjson.loads(bytes(delivery.body)) == body
        assert set(data) == set(event.data.__annotations__)
    # Without this comment the type check fails; without the error it does too.
    emit(relayer_events.RELAYER_DISABLED, notification, RELAYER)  # type: ignore[misc]


@pytest.mark.django_db
def test_every_event_has_an_id_of_its_own() -> None:
    notification = create_notification()
    identifiers = {emit_test(notification).identifier for _ in range(100)}
    assert len(identifiers) == 100
    # A dot would be ambiguous in what is signed.
    assert all(identifier.startswith("msg_") and "." not in identifier for identifier in identifiers)


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_sends_nothing_and_the_rest_is_sent() -> None:
    notification = create_notification()
    with transaction.atomic():
        emit_test(notification)
        transaction.set_rollback(True)
    assert (Delivery.objects.count(), due_targets(), pushed()) == (0, [], [])
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
    create_each([Emission(relayer_events.RELAYER_PAUSED, notification, lambda: RELAYER, "")] * 2)
    request_id.reset(context)
    assert list(Delivery.objects.values_list("request_id", flat=True)) == ["req-1", "req-1"]
