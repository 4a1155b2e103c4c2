"""Deliveries in the admin: a log that is read, filtered, and sent from again."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from notifications.console import delivery_log
from notifications.models import Attempt, Delivery, Notification
from relayer_service.background.tasks import queue
from relayer_service.console.lists import changelists
from relayer_service.database.clock import database_now
from relayer_service.models import AuditEntry, Job
from tests.notifications.admin_pages import asked, buttons, confirm, hidden_fields, rows, staff_who_may, told
from tests.notifications.factories import create_notification
from tests.relayer_service.jobs import run_jobs

pytestmark = pytest.mark.django_db

LIST = "/admin/notifications/delivery/"
NOON = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def notification() -> Notification:
    return create_notification()


def make_delivery(notification: Notification, number: int = 1, **fields: Any) -> Delivery:
    """A delivery that failed, unless it is said otherwise."""
    usual = {"event": "relayer.paused", "body": b'{"type":"relayer.paused"}', "state": "failed", "created_at": NOON}
    return Delivery.objects.create(notification=notification, identifier=f"msg_{number}", **usual | fields)


def on_its_way(notification: Notification, number: int = 1) -> Delivery:
    soon = timezone.now() + timedelta(seconds=30)
    return make_delivery(notification, number, state="pending", due_at=soon, lease=uuid.uuid4())


def change(delivery: Delivery) -> str:
    return f"{LIST}{delivery.pk}/change/"


def select(action: str, *deliveries: Delivery, **fields: str) -> dict[str, Any]:
    return {"action": action, "_selected_action": [delivery.pk for delivery in deliveries], **fields}


def found(client: Client, query: str) -> list[str]:
    return [row[0] for row in rows(client.get(f"{LIST}?{query}"))]


def test_the_list_tells_how_each_delivery_fares(admin_client: Client, notification: Notification) -> None:
    now = timezone.now()
    yesterday = now - timedelta(days=1)
    make_delivery(notification, 1, state="delivered", attempts_made=1, response_code=204, attempted_at=yesterday)
    about = {"subject": "relayer-1", "error": "No response in time."}
    make_delivery(notification, 2, attempts_made=10, attempted_at=now - timedelta(hours=3), **about)
    in_an_hour = now + timedelta(minutes=61)
    make_delivery(notification, 3, state="pending", attempts_made=2, response_code=503, due_at=in_an_hour)
    on_its_way(notification, 4)
    make_delivery(notification, 5, state="pending", due_at=now)
    shown = [[text.replace("\xa0", " ") for text in row] for row in rows(admin_client.get(LIST))]
    created = "2026-03-04 12:00 UTC"
    assert shown == [
        ["msg_5", "relayer.paused", "-", "hook", "pending", "0", "-", "-", created, "never", "now"],
        ["msg_4", "relayer.paused", "-", "hook", "pending", "0", "-", "-", created, "never", "in progress"],
        ["msg_3", "relayer.paused", "-", "hook", "retrying", "2", "503", "-", created, "never", "in 1 hour"],
        [
            "msg_2",
            "relayer.paused",
            "relayer-1",
            "hook",
            "failed",
            "10",
            "-",
            about["error"],
            created,
            "3 hours ago",
            "-",
        ],
        ["msg_1", "relayer.paused", "-", "hook", "delivered", "1", "204", "-", created, "1 day ago", "-"],
    ]


def test_deliveries_are_filtered_and_found_by_what_the_list_shows(
    admin_client: Client, notification: Notification
) -> None:
    make_delivery(notification, 1)
    late = datetime(2026, 3, 4, 23, 59, 59, tzinfo=UTC)
    make_delivery(notification, 2, state="delivered", subject="relayer-1", created_at=late)
    other = create_notification(identifier="another-one")
    make_delivery(other, 3, event="notification.test", created_at=datetime(2026, 3, 5, tzinfo=UTC))
    expected = {
        "state__exact=delivered": ["msg_2"],
        "event=notification.test": ["msg_3"],
        "relayer=relayer-1": ["msg_2"],
        "relayer=relayer": [],
        "relayer=&state__exact=": ["msg_3", "msg_2", "msg_1"],
        "created_at_from=2026-03-05": ["msg_3"],
        "created_at_from=2026-03-04&created_at_to=2026-03-04": ["msg_2", "msg_1"],
        "created_at_to=9999-12-31&created_at_from=nonsense": ["msg_3", "msg_2", "msg_1"],
        "q=msg_2": ["msg_2"],
        "q=msg": [],
        f"notification__sequence__exact={other.pk}": ["msg_3"],
    }
    assert {query: found(admin_client, query) for query in expected} == expected
    # The filter by webhook does not list them all.
    assert "another-one" not in admin_client.get(f"{LIST}?q=msg_1").content.decode()
    for lookup in ("notification__signing_key__startswith", "notification__url__contains", "body__contains", "lease"):
        assert admin_client.get(f"{LIST}?{lookup}=1").status_code == 400


def test_list_and_page_make_as_many_queries_for_many_rows_as_for_few(
    admin_client: Client, notification: Notification
) -> None:
    delivery = make_delivery(notification, 0)

    def count(first: int, last: int) -> list[int]:
        for number in range(first, last):
            make_delivery(create_notification(identifier=f"hook-{number}"), number)
            Attempt.objects.create(delivery=delivery, started_at=NOON, milliseconds=1)
        counts = []
        for path in (LIST, change(delivery)):
            admin_client.get(path)
            with CaptureQueriesContext(connection) as queries:
                assert admin_client.get(path).status_code == 200
            counts.append(len(queries))
        return counts

    assert count(1, 5) == count(5, 40)


def test_the_list_shows_the_newest_and_does_not_count_the_others(
    admin_client: Client, notification: Notification, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelists, "MAX_LISTED", 3)
    for number in range(1, 6):
        make_delivery(notification, number)
    with CaptureQueriesContext(connection) as queries:
        page = admin_client.get(LIST)
    assert page.context["cl"].result_count == 3
    assert "only the first are listed; use the search and the filters to find others" in page.content.decode()
    log = [query["sql"] for query in queries if "notifications_delivery" in query["sql"]]
    counts = [sql for sql in log if "COUNT" in sql]
    # One counts the page, one the tabs.
    assert (len(counts), [sql for sql in counts if "LIMIT" not in sql]) == (2, [])


def test_the_page_shows_the_body_and_every_attempt(admin_client: Client, notification: Notification) -> None:
    delivery = make_delivery(notification, body='{"type":"relayer.paused","data":{"name":"né <b>"}}'.encode())
    Attempt.objects.create(delivery=delivery, started_at=NOON, milliseconds=250, error="No response in time.")
    Attempt.objects.create(
        delivery=delivery,
        started_at=NOON + timedelta(seconds=5),
        milliseconds=12,
        response_code=500,
        answer="<script>no</script>",
        error="Returned HTTP 500.",
    )
    text = admin_client.get(change(delivery)).content.decode()
    body = "{\n  &quot;type&quot;: &quot;relayer.paused&quot;,\n  &quot;data&quot;: {\n    &quot;name&quot;: "
    assert f'<pre class="plain-text">{body}&quot;né &lt;b&gt;&quot;\n  }}\n}}</pre>' in text
    attempts = text[text.index('id="attempts-data"') :]
    assert [cell for cell in cells(attempts) if cell] == [
        *["2026-03-04 12:00:05 UTC", "12 ms", "500", "Returned HTTP 500.", "&lt;script&gt;no&lt;/script&gt;"],
        *["2026-03-04 12:00:00 UTC", "250 ms", "-", "No response in time.", "-"],
    ]
    assert "<script>no" not in text


def cells(text: str) -> list[str]:
    found = re.findall(r"<td class=[^>]*field-[^>]*>(.*?)</td>", text, re.DOTALL)
    return [" ".join(re.sub("<[^>]*>", " ", cell).split()) for cell in found]


@pytest.mark.parametrize(
    ("permissions", "shown"),
    [
        (["view_delivery"], "hook (https://hooks.example.com/***)"),
        (["view_delivery", "change_notification"], "hook (https://hooks.example.com/hook?key=1)"),
    ],
)
def test_url_and_answer_are_shown_whole_to_those_alone_who_may_change_the_webhook(
    client: Client, permissions: list[str], shown: str
) -> None:
    delivery = make_delivery(create_notification(url="https://anna:s3cret@hooks.example.com/hook?key=1"))
    # It may repeat the URL.
    answer = {"response_code": 404, "answer": "Cannot POST /key-of-the-url"}
    Attempt.objects.create(delivery=delivery, started_at=timezone.now(), milliseconds=1, **answer)
    text = staff_who_may(client, *permissions).get(change(delivery)).content.decode()
    field = text[text.index("/admin/notifications/notification/") :]
    assert re.sub("<[^>]*>", "", field[field.index(">") + 1 : field.index("</div>")]).strip() == shown
    assert "s3cret" not in text
    assert ("Cannot POST /key-of-the-url" in text) is (len(permissions) == 2)


def test_the_log_is_only_read(admin_client: Client, notification: Notification) -> None:
    delivery = make_delivery(notification)
    assert admin_client.get(f"{LIST}add/").status_code == 403
    assert admin_client.post(f"{LIST}{delivery.pk}/delete/", {"post": "yes"}).status_code == 403
    assert admin_client.post(change(delivery), {"state": "delivered"}).status_code == 403
    delivery.refresh_from_db()
    assert delivery.state == "failed"


def test_replay_asks_first_and_says_how_many_go_where(admin_client: Client, notification: Notification) -> None:
    other = create_notification(identifier="other", url="https://anna:s3cret@example.com/")
    chosen = [make_delivery(notification, 1), make_delivery(other, 2), make_delivery(other, 3, state="delivered")]
    page = admin_client.post(LIST, select("replay_selected", *chosen))
    assert page.context["texts"] == [
        "Sends 3 deliveries again from the start of the schedule, with the same webhook-id and body.",
        "Already delivered, and will be delivered again: 1 delivery.",
    ]
    assert asked(page) == [["other", "https://example.com/", "2"], ["hook", "https://hooks.example.com/hook", "1"]]
    assert "s3cret" not in page.content.decode()
    assert not Delivery.objects.filter(state="pending").exists()


@pytest.mark.parametrize("action", ["replay_selected", "retry_selected_now"])
def test_sending_says_that_it_revives_a_gone_target_and_waits_for_a_disabled_one(
    admin_client: Client, notification: Notification, action: str
) -> None:
    chosen = make_delivery(notification, 1, state="pending", due_at=timezone.now())
    Notification.objects.update(enabled=False)
    page = admin_client.post(LIST, select(action, chosen))
    assert page.context["texts"][1:] == ["Disabled webhooks, which receive nothing until they are enabled: hook."]
    Notification.objects.update(enabled=True, gone_at=timezone.now())
    page = admin_client.post(LIST, select(action, chosen))
    again = "Deliveries to them resume, and they receive new events until they return 410 again."
    assert page.context["texts"][1:] == [f"Webhooks that returned 410 Gone: hook. {again}"]
    admin_client.post(LIST, hidden_fields(page))
    run_jobs()
    assert Notification.objects.get().gone_at is None


def test_a_confirmed_replay_sends_from_the_start_what_is_not_on_its_way(
    admin_client: Client,
    notification: Notification,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    chosen = [make_delivery(notification, number, attempts_made=10) for number in (1, 2)]
    chosen.append(on_its_way(notification, 3))
    page = admin_client.post(LIST, select("replay_selected", *chosen))
    # One that was not there to be confirmed.
    make_delivery(notification, 4)
    page = admin_client.post(LIST, hidden_fields(page), follow=True)
    assert told(page) == ["Started in the worker: Replay 3 deliveries. View its progress."]
    with django_capture_on_commit_callbacks(execute=True):
        run_jobs()
    assert Job.objects.values("done", "skipped", "failed").get() == {"done": 2, "skipped": 1, "failed": 0}
    assert list(Delivery.objects.order_by("pk").values_list("identifier", "state", "attempts_made", "lease")) == [
        ("msg_1", "pending", 0, None),
        ("msg_2", "pending", 0, None),
        ("msg_3", "pending", 0, chosen[2].lease),
        ("msg_4", "failed", 0, None),
    ]
    assert [(task.name, task.args) for task in queue.pending()] == [("deliver", (notification.pk,))]
    logged = AuditEntry.objects.order_by("object_id").values_list("object_id", "reason", "actor", "request_id")
    job = f"job-{Job.objects.get().pk}"
    assert list(logged) == [("msg_1", "Replayed.", "admin", job), ("msg_2", "Replayed.", "admin", job)]


def test_all_that_a_filter_finds_is_replayed_at_once_up_to_what_is_listed(
    admin_client: Client, notification: Notification, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_log.DeliveryAdmin, "list_per_page", 1)
    monkeypatch.setattr(delivery_log, "MAX_LISTED", 2)
    first, *_ = [make_delivery(notification, number) for number in (1, 2, 3)]
    make_delivery(notification, 4, state="delivered")
    url = f"{LIST}?state__exact=failed"
    page = admin_client.post(url, select("replay_selected", first, select_across="1"))
    answer = admin_client.post(url, hidden_fields(page))
    assert answer["Location"] == url
    run_jobs()
    pending = Delivery.objects.filter(state="pending").values_list("identifier", flat=True)
    assert set(pending) == {"msg_3", "msg_2"}


def test_retry_now_brings_forward_what_is_pending(admin_client: Client, notification: Notification) -> None:
    later = timezone.now() + timedelta(hours=5)
    waiting = make_delivery(notification, 1, state="pending", attempts_made=4, due_at=later)
    failed = make_delivery(notification, 2)
    confirm(admin_client, LIST, select("retry_selected_now", waiting, failed))
    run_jobs()
    assert Job.objects.values("done", "skipped", "failed").get() == {"done": 1, "skipped": 1, "failed": 0}
    waiting.refresh_from_db()
    failed.refresh_from_db()
    assert waiting.due_at
    assert waiting.due_at <= database_now()
    assert (waiting.attempts_made, failed.state) == (4, "failed")
    assert list(AuditEntry.objects.values_list("object_id", "reason")) == [("msg_1", "Retried.")]


def test_the_buttons_of_a_page_replay_and_retry_when_it_is_confirmed(
    admin_client: Client, notification: Notification
) -> None:
    delivery = make_delivery(notification, attempts_made=10)
    assert buttons(admin_client.get(change(delivery))) == ["Replay"]
    url = f"{LIST}{delivery.pk}/replay/"
    page = admin_client.get(url)
    assert asked(page) == [["hook", "https://hooks.example.com/hook", "1"]]
    assert Delivery.objects.get().state == "failed"
    page = admin_client.post(url, hidden_fields(page), follow=True)
    assert page.redirect_chain == [(change(delivery), 302)]
    assert (told(page), buttons(page)) == (["Replayed: 1 delivery."], ["Replay", "Retry now"])
    assert (Delivery.objects.get().state, Delivery.objects.get().attempts_made) == ("pending", 0)
    later = timezone.now() + timedelta(hours=5)
    Delivery.objects.update(due_at=later)
    url = f"{LIST}{delivery.pk}/retry_now/"
    admin_client.get(url)
    assert Delivery.objects.get().due_at == later
    assert told(admin_client.post(url, follow=True)) == ["Retried: 1 delivery."]
    assert rows(admin_client.get(LIST))[0][-1] == "now"
    assert admin_client.post(f"{LIST}999/replay/").status_code == 404


def test_who_may_send_and_see_deliveries_replays_them_without_seeing_urls(
    client: Client, notification: Notification
) -> None:
    sender = staff_who_may(client, "view_delivery", "send_delivery")
    delivery = make_delivery(notification)
    assert buttons(sender.get(change(delivery))) == ["Replay"]
    asked = sender.get(f"{LIST}{delivery.pk}/replay/")
    assert [row[1:] for row in asked.context["table"].rows] == [["https://hooks.example.com/***", "1"]]
    sender.post(f"{LIST}{delivery.pk}/replay/")
    assert Delivery.objects.get().state == "pending"
