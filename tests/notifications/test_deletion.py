"""Deleting notifications in the admin, with the log of what was sent to them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoCaptureOnCommitCallbacks

from notifications.models import Attempt, Delivery, Notification
from relayer_service.console.base import USED_CONCURRENTLY
from relayer_service.models import AuditEntry
from tests.concurrency import in_threads
from tests.notifications.factories import create_notification, emit_test, exchange, outcome
from tests.relayers import factories

pytestmark = pytest.mark.django_db

LIST = "/admin/notifications/notification/"


def with_log(count: int, identifier: str = "hook") -> Notification:
    """A notification whose deliveries have all arrived."""
    notification = create_notification(identifier=identifier)
    for _ in range(count):
        emit_test(notification)
    exchange(notification, *[outcome(row) for row in exchange(notification)], room=0)
    return notification


def from_the_page(client: Client, notification: Notification, **fields: str) -> Any:
    return client.post(f"{LIST}{notification.pk}/delete/", fields)


def from_the_list(client: Client, notification: Notification, **fields: str) -> Any:
    selection = {"action": "delete_selected", "_selected_action": str(notification.pk)}
    return client.post(LIST, selection | fields)


both_ways = pytest.mark.parametrize("delete", [from_the_page, from_the_list])


@pytest.fixture
def commits(django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks) -> DjangoCaptureOnCommitCallbacks:
    return django_capture_on_commit_callbacks


def rows() -> tuple[int, int, int]:
    return Notification.objects.count(), Delivery.objects.count(), Attempt.objects.count()


@both_ways
def test_a_webhook_is_deleted_with_its_finished_deliveries_which_a_page_counts(
    admin_client: Client, delete: Any
) -> None:
    with_log(2, "other")
    notification = with_log(3)
    page = delete(admin_client, notification).context
    assert (page["deleted_objects"] if delete is from_the_page else page["deletable_objects"][0]) == [
        "hook, with 3 deliveries"
    ]
    assert dict(page["model_count"]) == {"webhooks": 1, "deliveries": 3}
    assert rows() == (2, 5, 5)
    assert delete(admin_client, notification, post="yes").status_code == 302
    assert rows() == (1, 2, 2)


@both_ways
def test_a_relayer_that_is_pointed_here_meanwhile_keeps_what_is_pending(
    admin_client: Client, delete: Any, monkeypatch: pytest.MonkeyPatch, commits: DjangoCaptureOnCommitCallbacks
) -> None:
    notification = with_log(1)
    emit_test(notification)
    factories.relayer(notification=notification)
    monkeypatch.setattr("notifications.admin.in_use", lambda notifications, **options: [])
    with commits(execute=True):
        page = delete(admin_client, notification, post="yes")
    assert (page.status_code, page.url) == (302, LIST)
    told = [str(message) for message in get_messages(page.wsgi_request)]
    assert USED_CONCURRENTLY in told
    assert not any("dropped" in text for text in told)
    assert rows() == (1, 2, 1)


def test_a_confirmation_reads_nothing_of_a_log_however_long(admin_client: Client) -> None:
    queries = []
    for count in (1, 20):
        notification = with_log(count, f"hook-{count}")
        with CaptureQueriesContext(connection) as asked:
            admin_client.get(f"{LIST}{notification.pk}/delete/")
        queries.append([query["sql"] for query in asked])
    assert len(queries[0]) == len(queries[1])
    assert [query for query in queries[1] if "body" in query or "answer" in query] == []


@both_ways
def test_pending_deliveries_are_dropped_after_a_page_that_counts_them(
    admin_client: Client, delete: Any, commits: DjangoCaptureOnCommitCallbacks
) -> None:
    with_log(1, "other")
    notification = with_log(2)
    emit_test(notification)
    page = delete(admin_client, notification).context
    assert (page["deleted_objects"] if delete is from_the_page else page["deletable_objects"][0]) == [
        "hook, with 3 deliveries, 1 of them pending: these will never be sent"
    ]
    with commits(execute=True):
        answer = delete(admin_client, notification, post="yes")
    assert "hook: 1 pending delivery was dropped." in [str(each) for each in get_messages(answer.wsgi_request)]
    entry = AuditEntry.objects.filter(object_type="notification", object_id="hook", action="deleted").get()
    assert entry.reason == "1 pending delivery was dropped."
    assert rows() == (1, 1, 1)


@pytest.mark.django_db(transaction=True)
def test_workers_go_on_while_their_target_is_deleted_and_after_it(admin_client: Client) -> None:
    notification = create_notification()
    for _ in range(40):
        emit_test(notification)
    claimed = exchange(notification)
    works = [partial(exchange, notification, outcome(row)) for row in claimed[:20]]
    delete = partial(from_the_page, admin_client, notification, post="yes")
    *written, answer = in_threads(*works, delete)
    assert answer.status_code == 302
    assert all(rows == [] for rows in written)
    assert exchange(notification, outcome(claimed[20]), unsent=[claimed[21]]) == []
    assert rows() == (0, 0, 0)
