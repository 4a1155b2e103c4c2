"""Deliveries of a webhook over the API, and signing keys that are rotated without a gap."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from standardwebhooks import Webhook, WebhookVerificationError

from notifications.delivery import signing
from notifications.events import all_events
from notifications.models import Attempt, Delivery, Notification
from relayer_service.api import idempotency
from relayer_service.models import AuditEntry
from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tokens.writes import issue

PATH = "/api/v1/notifications/hook-1/deliveries"
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
FAILED = {
    "id": "msg_2",
    "event": "relayer.paused",
    "state": "failed",
    "attempts": 3,
    "response_code": 500,
    "error": "Returned HTTP 500.",
    "created_at": "2026-01-02T03:04:06.000678Z",
    "attempted_at": "2026-01-02T04:04:05.000678Z",
}
TIME = "a time with its offset as in RFC 3339 is required"
PENDING = {
    "id": "msg_1",
    "event": "relayer.paused",
    "state": "pending",
    "attempts": 0,
    "created_at": "2026-01-02T03:04:05.000678Z",
    "next_attempt_at": "2040-01-01T00:00:00.000000Z",
}


@pytest.fixture
def hook(db: None) -> Notification:
    hook = factories.notification("hook-1")
    common: dict[str, Any] = {"notification": hook, "event": "relayer.paused", "body": b"{}"}
    due_at = datetime(2040, 1, 1, tzinfo=UTC)
    Delivery.objects.create(identifier="msg_1", created_at=MOMENT, due_at=due_at, **common)
    Delivery.objects.create(
        identifier="msg_2",
        state="failed",
        attempts_made=3,
        response_code=500,
        error="Returned HTTP 500.",
        created_at=MOMENT + timedelta(seconds=1),
        attempted_at=MOMENT + timedelta(hours=1),
        **common,
    )
    other = factories.notification("hook-2")
    Delivery.objects.create(identifier="msg_3", due_at=due_at, **common | {"notification": other})
    return hook


QUERIES = {
    "": [FAILED, PENDING],
    "?state=failed": [FAILED],
    "?event=relayer.resumed": [],
    "?created_from=2026-01-02T03:04:06.000678Z": [FAILED],
    "?created_before=2026-01-02T03:04:06.000678Z": [PENDING],
    "?created_from=2026-01-02T04:04:05%2B01:00&created_before=2026-01-02T02:04:06-01:00": [PENDING],
    "?created_from=2026-01-02T03:04:06Z&state=pending": [],
}
FAULTS = {
    "state=lost": "state: must be one of: pending, delivered, failed",
    "state=failed&state=pending": "state: given more than once",
    "event=relayer.lost": f"event: must be one of: {', '.join(all_events())}"[:200],
    "created_from=2026-01-02": f"created_from: {TIME}",
    # A plus sign that is not encoded is a space.
    "created_before=2026-01-02T03:04:06+01:00": f"created_before: {TIME}",
    "created_before=2026-02-30T00:00:00Z": f"created_before: {TIME}",
    "created_before=0001-01-01T00:00:00%2B01:00": f"created_before: {TIME}",
}


def test_the_deliveries_of_a_notification_are_listed_the_newest_first(manager: Api, hook: Notification) -> None:
    for query, expected in QUERIES.items():
        assert manager.get(PATH + query).body == bodies.page(expected, total_items=len(expected)), query
    for query, fault in FAULTS.items():
        answer = manager.get(f"{PATH}?{query}")
        assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))


def delivery_log() -> list[dict[str, Any]]:
    """Create two attempts, and return them as they are shown, without responses."""
    delivery = Delivery.objects.get(identifier="msg_2")
    first, second = MOMENT + timedelta(minutes=1), MOMENT + timedelta(hours=1)
    Attempt.objects.create(delivery=delivery, started_at=first, milliseconds=15_000, error="No answer.")
    refused = {"response_code": 500, "error": "Returned HTTP 500.", "answer": "webhook-signature: v1,c2ln"}
    Attempt.objects.create(delivery=delivery, started_at=second, milliseconds=12, **refused)
    return [
        {
            "started_at": "2026-01-02T04:04:05.000678Z",
            "milliseconds": 12,
            "response_code": 500,
            "error": "Returned HTTP 500.",
        },
        {"started_at": "2026-01-02T03:05:05.000678Z", "milliseconds": 15_000, "error": "No answer."},
    ]


@pytest.mark.parametrize("scope", ["read", "manage"])
def test_a_delivery_is_shown_without_signatures(hook: Notification, user: User, scope: str) -> None:
    newest, oldest = delivery_log()
    hook.set_signing_key("a key")
    hook.save()
    Delivery.objects.filter(identifier="msg_2").update(body=b'{"type":"relayer.paused","data":{"n":1e400}}')
    reader = Api(issue(name="reader", user=user, scopes=[scope])[1])
    with CaptureQueriesContext(connection) as queries:
        answer = reader.get(f"{PATH}/msg_2")
    # Those who may not change the target see no answers, which may repeat what it was sent.
    body = {"response_body": "webhook-signature: v1,c2ln"} if scope == "manage" else {}
    expected = {
        **FAILED,
        "headers": {
            "Content-Type": "application/json",
            "User-Agent": "Relayer-Management-Service",
            "webhook-id": "msg_2",
        },
        "payload": {"type": "relayer.paused", "data": {"n": float("inf")}},
        "attempt_log": [newest | body, oldest],
    }
    assert (answer.status, answer.body) == (200, bodies.success(expected))
    # Token, notification, delivery and attempts.
    assert len(queries) == 4


def test_a_delivery_is_replayed_and_one_of_another_notification_is_not_found(manager: Api, hook: Notification) -> None:
    answer = manager.post(f"{PATH}/msg_2/replay")
    replayed = answer.body["data"]
    assert (answer.status, replayed["state"], replayed["attempts"]) == (200, "pending", 0)
    assert Delivery.objects.get(identifier="msg_2").state == "pending"
    assert AuditEntry.objects.get(object_id="msg_2").reason == "Replayed."
    for identifier in ("msg_3", "msg_4", "msg_%00"):
        for answer in (manager.get(f"{PATH}/{identifier}"), manager.post(f"{PATH}/{identifier}/replay")):
            unknown = bodies.failure(f"Delivery with ID {unquote(identifier)} not found")
            assert (answer.status, answer.body) == (404, unknown)
    answer = manager.get("/api/v1/notifications/none/deliveries/msg_2")
    assert (answer.status, answer.body) == (404, bodies.failure("Notification with ID none not found"))


def test_a_test_event_is_sent_to_an_enabled_notification(manager: Api, hook: Notification) -> None:
    answer = manager.post("/api/v1/notifications/hook-1/test")
    sent = Delivery.objects.get(event="notification.test")
    assert (answer.status, answer.body["data"]["id"], sent.notification) == (201, sent.identifier, hook)
    Notification.objects.update(enabled=False)
    answer = manager.post("/api/v1/notifications/hook-1/test")
    assert (answer.status, answer.body) == (409, bodies.failure("Notification is disabled"))
    for key in ({}, {"Idempotency-Key": "4b1e-7"}):
        answer = manager.post("/api/v1/notifications/%00/test", headers=key)
        assert (answer.status, answer.body) == (404, bodies.failure("Notification with ID \0 not found"))


def test_a_notification_that_is_deleted_concurrently_gets_no_test_event(
    manager: Api, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.notification("hook-1")
    # The last thing that happens before the event is sent.
    monkeypatch.setattr(idempotency, "claim", lambda key: Notification.objects.all().delete() and None)
    answer = manager.post("/api/v1/notifications/hook-1/test", headers={"Idempotency-Key": "4b1e-7"})
    assert (answer.status, answer.body) == (404, bodies.failure("Notification with ID hook-1 not found"))
    assert not Delivery.objects.exists()


def keys_that_verify(hook: Notification, *keys: str) -> list[str]:
    hook.refresh_from_db()
    now = timezone.now()
    headers = signing.headers("msg_1", now, b"{}", hook.signing_key, hook.other_signing_keys())

    def verifies(key: str) -> bool:
        try:
            Webhook(key.encode()).verify("{}", headers)
        except WebhookVerificationError:
            return False
        return True

    return [key for key in keys if verifies(key)]


def test_for_a_day_after_a_change_both_keys_sign(api: Api, hook: Notification) -> None:
    path = "/api/v1/notifications/hook-1"
    for key in ("the first key", "the second key", "the third key"):
        api.patch(path, {"signing_key": key})
    keys = ("the first key", "the second key", "the third key")
    assert keys_that_verify(hook, *keys) == ["the second key", "the third key"]
    # The same again changes nothing.
    api.patch(path, {"signing_key": "the third key"})
    assert keys_that_verify(hook, *keys) == ["the second key", "the third key"]
    Notification.objects.update(previous_key_until=timezone.now() - timedelta(seconds=1))
    assert keys_that_verify(hook, *keys) == ["the third key"]
    # One that is removed signs nothing more.
    for key in ("", "another key"):
        api.patch(path, {"signing_key": key})
    assert keys_that_verify(hook, *keys, "another key") == ["another key"]
