"""The panels of a webhook's page: its state, its buttons, and its signing key."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from notifications import jobs
from notifications.delivery import signing
from notifications.models import Delivery, Notification
from relayer_service.background.tasks import queue
from relayer_service.models import AuditEntry, Job
from tests.notifications.admin_pages import asked, hidden_fields, rows, staff_who_may, told
from tests.notifications.clock import NOON, Clock
from tests.notifications.factories import create_notification, exchange, outcome
from tests.relayer_service.jobs import run_jobs

pytestmark = pytest.mark.django_db

LIST = "/admin/notifications/notification/"


def page_of(notification: Notification, view: str = "change") -> str:
    return f"{LIST}{notification.pk}/{view}/"


def deliver(notification: Notification, number: int = 1, **fields: Any) -> Delivery:
    usual = {"event": "relayer.paused", "body": b"{}", "state": "failed", "created_at": NOON}
    return Delivery.objects.create(notification=notification, identifier=f"msg_{number}", **usual | fields)


def waiting(notification: Notification, number: int = 1, **fields: Any) -> Delivery:
    return deliver(notification, number, state="pending", **{"due_at": NOON + timedelta(minutes=5)} | fields)


def shown(page: Any) -> dict[str, str]:
    """Return the facts, and for a time ago the time itself."""
    facts = page.context["webhook"]["facts"]
    exact = {name: re.sub('<time.*title="([^"]*)".*', r"\1", value) for name, value in facts.items()}
    return {name: " ".join(re.sub("<[^>]*>", "", value).split()) for name, value in exact.items()}


def offered(page: Any) -> list[str]:
    return [*page.context["webhook"]["posts"], *page.context["webhook"]["links"]]


def test_a_webhook_works_after_a_first_success_at_its_url(admin_client: Client, clock: Clock) -> None:
    notification = create_notification()
    page = admin_client.get(page_of(notification))
    new = {"State": "Not tried yet", "Next attempt": "with the next event", "Pending": "0"}
    assert (shown(page), offered(page)) == (new, ["Send test", "Disable"])
    waiting(notification, due_at=NOON)
    (claimed,) = exchange(notification, lease=(lease := uuid.uuid4()))
    exchange(notification, outcome(claimed), lease=lease)
    works = {**new, "State": "Working", "Last attempt": "2026-01-01 12:00:00 UTC"}
    assert shown(admin_client.get(page_of(notification))) == works
    notification.refresh_from_db()
    notification.save(update_fields=notification.set_url("https://new.example.com/"))
    assert shown(admin_client.get(page_of(notification)))["State"] == "Not tried yet"


def test_a_failing_webhook_shows_error_start_and_next_attempt_until_it_is_stopped(
    admin_client: Client, clock: Clock
) -> None:
    notification = create_notification()
    Notification.objects.update(failing_since=NOON - timedelta(hours=2), tried=True)
    attempted = {"attempted_at": NOON - timedelta(minutes=1), "error": "Returned HTTP 500."}
    first = waiting(notification, 1, attempts_made=2, **attempted)
    waiting(notification, 2, due_at=NOON + timedelta(minutes=30))
    page = admin_client.get(page_of(notification))
    assert shown(page) == {
        "State": "Failing, retrying",
        "Error": "Returned HTTP 500.",
        "Since": "2026-01-01 10:00 UTC",
        "Last attempt": "2026-01-01 11:59:00 UTC",
        "Next attempt": "in 5 minutes",
        "Pending": "2: 1 retrying, 1 waiting behind",
    }
    assert offered(page) == ["Retry all", "Send test", "Disable"]
    assert f"/admin/notifications/delivery/{first.pk}/change/" in page.context["webhook"]["facts"]["Error"]
    # One that is due is not tried now: others are before it.
    Delivery.objects.exclude(pk=first.pk).update(due_at=NOON)
    assert (
        shown(admin_client.get(page_of(notification)))["Next attempt"] == "within seconds, of one delivery at a time"
    )
    log = rows(admin_client.get("/admin/notifications/delivery/"))
    assert [(row[4], row[-1]) for row in log] == [
        ("waiting", "in its turn"),
        ("retrying", "in 5 minutes"),
    ]
    Notification.objects.update(gone_at=NOON)
    Delivery.objects.all().delete()
    assert shown(admin_client.get(page_of(notification))) == {
        "State": "Stopped",
        "Reason": "It returned 410 Gone. To resume, change its URL, send a test or replay deliveries.",
        "Since": "2026-01-01 12:00 UTC",
        "Next attempt": "none",
        "Pending": "0",
    }


def test_the_status_refreshes_while_a_delivery_is_due(admin_client: Client, clock: Clock) -> None:
    notification = create_notification()
    delivery = waiting(notification)
    refreshed = page_of(notification, "facts")
    for seconds, next_attempt in {0: "now", 40: "in less than a minute"}.items():
        Delivery.objects.filter(pk=delivery.pk).update(due_at=NOON + timedelta(seconds=seconds))
        assert (refreshed in admin_client.get(page_of(notification)).content.decode()) is (seconds == 0)
        facts = admin_client.get(refreshed)
        assert shown(facts)["Next attempt"] == next_attempt
        assert ("data-over" in facts.content.decode()) is (seconds > 0)


def test_a_disabled_webhook_is_stopped_and_can_be_enabled(admin_client: Client) -> None:
    notification = create_notification()
    url = page_of(notification, "disable")
    page = admin_client.get(url)
    assert asked(page) == [["hook", "Not tried yet"]]
    assert told(admin_client.post(url, {"reason": "Maintenance"}, follow=True)) == ["hook is disabled."]
    assert AuditEntry.objects.values("changes", "reason", "actor").get() == {
        "changes": {"enabled": [True, False]},
        "reason": "Maintenance",
        "actor": "admin",
    }
    page = admin_client.get(page_of(notification))
    assert shown(page) == {
        "State": "Stopped",
        "Reason": "It is disabled.",
        "Next attempt": "when it is enabled",
        "Pending": "0",
    }
    assert offered(page) == ["Enable"]
    assert told(admin_client.post(page_of(notification, "enable"), follow=True)) == ["hook is enabled."]
    assert Notification.objects.get().enabled


def test_retry_all_makes_pending_deliveries_of_the_webhook_due(
    admin_client: Client, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    notification, other = create_notification(), create_notification(identifier="other")
    for number in range(3):
        waiting(notification, number)
    waiting(notification, 3, lease=uuid.uuid4())
    waiting(other, 4)
    deliver(notification, 5)
    assert told(admin_client.post(page_of(notification, "retry_all"), follow=True)) == ["Retried: 3 deliveries."]
    due = Delivery.objects.filter(due_at=NOON)
    assert sorted(due.values_list("identifier", flat=True)) == ["msg_0", "msg_1", "msg_2"]
    assert AuditEntry.objects.filter(reason="Retried.").count() == 3
    # Many are retried in a job.
    monkeypatch.setattr(jobs.RetryDeliveries, "batch_size", 2)
    due.update(due_at=NOON + timedelta(minutes=5))
    page = admin_client.post(page_of(notification, "retry_all"), follow=True)
    assert told(page) == ["Started in the worker: Retry 3 deliveries now. View its progress."]
    run_jobs()
    assert due.count() == 3


@pytest.mark.parametrize(("which", "replayed"), [("failed", ["msg_2"]), ("all", ["msg_2", "msg_3"])])
def test_deliveries_since_a_time_are_counted_and_then_replayed(
    admin_client: Client, which: str, replayed: list[str]
) -> None:
    notification = create_notification()
    deliver(notification, 1, created_at=NOON - timedelta(minutes=1))
    deliver(notification, 2)
    deliver(notification, 3, state="delivered")
    deliver(create_notification(identifier="other"), 4)
    url = page_of(notification, "replay_since")
    nothing: dict[str, dict[str, str]] = {
        "No deliveries match.": {"since": "2027-01-01T12:00", "which": which},
        "Enter a date.": {"since": "yesterday", "which": which},
        "Invalid selection of rows.": {"confirmed": "nonsense"},
    }
    assert {text: told(admin_client.post(url, fields, follow=True)) for text, fields in nothing.items()} == {
        text: [text] for text in nothing
    }
    page = admin_client.post(url, {"since": "2026-01-01T12:00", "which": which})
    assert asked(page) == [["hook", notification.url, str(len(replayed))]]
    assert not Job.objects.exists()
    admin_client.post(url, hidden_fields(page))
    run_jobs()
    pending = Delivery.objects.filter(state="pending").values_list("identifier", flat=True)
    assert sorted(pending) == replayed


def test_a_generated_key_is_shown_once_and_signs(admin_client: Client) -> None:
    notification = create_notification(signing_key="old key")
    url = page_of(notification, "generate_key")
    assert asked(admin_client.get(url)) == [["hook", "Not tried yet"]]
    assert Notification.objects.get().signing_key == "old key"
    page = admin_client.post(url)
    stored = Notification.objects.get()
    assert page.context["key"] == stored.signing_key
    assert "no-store" in page["Cache-Control"]
    assert len(signing.key_bytes(str(stored.signing_key))) == 32
    assert stored.other_signing_keys() == ["old key"]
    assert AuditEntry.objects.get().changes == {"signing_key": "changed"}
    later = admin_client.get(page_of(notification)).content.decode()
    assert str(stored.signing_key) not in later
    assert f"The previous key also signs until {stored.previous_key_until:%Y-%m-%d %H:%M:%S} UTC." in later


def test_the_previous_key_is_ended(admin_client: Client) -> None:
    notification = create_notification(signing_key="old key")
    notification.save(update_fields=notification.set_signing_key("new key"))
    url = page_of(notification, "end_previous_key")
    admin_client.get(url)
    assert Notification.objects.get().other_signing_keys() == ["old key"]
    assert told(admin_client.post(url, follow=True)) == ["hook: only the current key signs."]
    row = Notification.objects.get()
    assert (row.signing_key, row.other_signing_keys(), row.previous_key_until) == ("new key", [], None)
    assert AuditEntry.objects.get().reason == "Ended the previous signing key."
    assert "End now" not in admin_client.get(page_of(notification)).content.decode()


def test_staff_who_may_only_view_see_the_state_and_no_button(client: Client) -> None:
    viewer = staff_who_may(client, "view_notification", "view_delivery")
    notification = create_notification(signing_key="key")
    waiting(notification)
    page = viewer.get(page_of(notification))
    assert (offered(page), page.context["replay_form"]) == ([], None)
    assert "Generate key" not in page.content.decode()


def test_the_page_makes_as_many_queries_for_many_deliveries_as_for_few(admin_client: Client) -> None:
    notification = create_notification()
    waiting(notification, 0, attempted_at=NOON)
    admin_client.get(page_of(notification))
    with CaptureQueriesContext(connection) as few:
        admin_client.get(page_of(notification))
    for number in range(1, 30):
        waiting(notification, number, attempted_at=timezone.now())
    with CaptureQueriesContext(connection) as many:
        admin_client.get(page_of(notification))
    assert len(many) == len(few)
    assert queue.pending() == []
