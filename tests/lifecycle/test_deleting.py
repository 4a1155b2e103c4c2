"""What is deleted, what is in use and stays, and which deliveries are dropped."""

import pytest

from notifications.models import Delivery, Notification
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from signers.models import Signer
from tests.api import Api
from tests.concurrency import in_threads
from tests.contract import bodies
from tests.relayers import factories


def deliver(notification: Notification, state: str) -> Delivery:
    due = {"due_at": "2040-01-01T00:00:00Z"} if state == "pending" else {}
    return Delivery.objects.create(notification=notification, event="relayer.paused", body=b"{}", state=state, **due)


def test_what_a_relayer_uses_stays(manager: Api) -> None:
    hook = factories.notification("hook-1")
    factories.relayer(notification=hook)
    deliver(hook, "delivered")
    deliver(hook, "pending")
    for path, kind in (("signers/signer-1", "Signer"), ("notifications/hook-1", "Notification")):
        answer = manager("DELETE", f"/api/v1/{path}")
        assert (answer.status, answer.body) == (409, bodies.failure(f"{kind} is in use by a relayer"))
    assert (Signer.objects.count(), Delivery.objects.count()) == (1, 2)


def test_pending_deliveries_are_dropped_and_the_answer_says_how_many(manager: Api) -> None:
    hook = factories.notification("hook-1")
    for state in ("delivered", "failed", "pending", "pending"):
        deliver(hook, state)
    answer = manager("DELETE", "/api/v1/notifications/hook-1")
    text = "2 pending deliveries were dropped."
    assert (answer.status, answer.body) == (200, bodies.success("Notification deleted successfully", logs=[text]))
    assert AuditEntry.objects.get(object_type="notification", action="deleted").reason == text
    assert (Notification.objects.count(), Delivery.objects.count()) == (0, 0)


def test_what_a_deleted_relayer_has_emitted_is_still_sent_and_its_history_stays(manager: Api) -> None:
    hook = factories.notification("hook-1")
    factories.relayer(notification=hook)
    manager.patch("/api/v1/relayers/relayer-1", {"paused": True})
    assert manager("DELETE", "/api/v1/relayers/relayer-1").status == 200
    assert not Relayer.objects.exists()
    assert [(each.event, each.state) for each in Delivery.objects.all()] == [("relayer.paused", "pending")]
    entries = AuditEntry.objects.filter(object_type="relayer").order_by("pk")
    assert [(entry.action, entry.who.partition(" (")[0]) for entry in entries] == [
        ("changed", "Token terraform"),
        ("deleted", "Token terraform"),
    ]
    assert all(entry.request_id and entry.address == "127.0.0.1" for entry in entries)


@pytest.mark.django_db(transaction=True)
def test_callers_that_race_to_create_change_and_delete_one_relayer_break_nothing(manager: Api) -> None:
    factories.signer()
    factories.notification("hook-1")
    path = "/api/v1/relayers/relayer-1"
    body = {"id": "relayer-1", "paused": False, "signer_id": "signer-1"}
    body |= {"name": "R", "network": "sepolia", "network_type": "evm"}
    works = {
        "create": lambda: manager.post("/api/v1/relayers", body),
        "pause": lambda: manager.patch(path, {"paused": True, "notification_id": "hook-1"}),
        "resume": lambda: manager.patch(path, {"paused": False, "policies": {"min_balance": 5}}),
        "delete": lambda: manager("DELETE", path),
        "delete its signer": lambda: manager("DELETE", "/api/v1/signers/signer-1"),
    }
    answers = in_threads(*[*works.values()] * 10)
    assert {answer.status for answer in answers} <= {200, 201, 400, 404, 409}
    # Each that is there has all that it refers to, and each event has its change.
    relayers = Relayer.objects.select_related("signer", "notification")
    assert all(relayer.signer.identifier == "signer-1" for relayer in relayers)
    created = AuditEntry.objects.filter(object_type="relayer", action="created").count()
    deleted = AuditEntry.objects.filter(object_type="relayer", action="deleted").count()
    assert created - deleted == relayers.count()
