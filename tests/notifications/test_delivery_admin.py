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
        ["msg_3", "relayer.paused", "-", "hook", "pending", "2", "503", "-", created, "never", "in 1 hour"],
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


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state__exact=delivered", ["msg_2"]),
        ("state__exact=", ["msg_3", "msg_2", "msg_1"]),
        ("event=notification.test", ["msg_3"]),
        ("relayer=relayer-1", ["msg_2"]),
        ("relayer=relayer", []),
        ("relayer=", ["msg_3", "msg_2", "msg_1"]),
        ("created_at_from=2026-03-05", ["msg_3"]),
        ("created_at_to=2026-03-04", ["msg_2", "msg_1"]),
        ("created_at_from=2026-03-04&created_at_to=2026-03-04", ["msg_2", "msg_1"]),
        ("created_at_to=9999-12-31&created_at_from=nonsense", ["msg_3", "msg_2", "msg_1"]),
        ("q=msg_2", ["msg_2"]),
        ("q=msg", []),
    ],
)
def test_deliveries_are_filtered_and_found(
    admin_client: Client, notification: Notification, query: str, expected: list[str]
) -> None:
    make_delivery(notification, 1)
    late = datetime(2026, 3, 4, 23, 59, 59, tzinfo=UTC)
    make_delivery(notification, 2, state="delivered", subject="relayer-1", created_at=late)
    make_delivery(notification, 3, event="notification.test", created_at=datetime(2026, 3, 5, tzinfo=UTC))
    assert found(admin_client, query) == expected


def test_deliveries_are_filtered_by_notification(admin_client: Client, notification: Notification) -> None:
    make_delivery(notification, 1)
    other = create_notification(identifier="other")
    make_delivery(other, 2)
    assert found(admin_client, f"notification__sequence__exact={other.pk}") == ["msg_2"]


def test_the_filter_by_notification_does_not_list_them_all(admin_client: Client, notification: Notification) -> None:
    make_delivery(notification)
    create_notification(identifier="another-one")
    assert "another-one" not in admin_client.get(LIST).content.decode()


@pytest.mark.parametrize(
    "lookup",
    ["notification__signing_key__startswith=1:", "notification__url__contains=s3cret", "body__contains=x", "lease=1"],
)
def test_the_list_cannot_be_filtered_by_what_it_does_not_show(admin_client: Client, lookup: str) -> None:
    assert admin_client.get(f"{LIST}?{lookup}").status_code == 400


def test_the_list_makes_as_many_queries_for_many_deliveries_as_for_few(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_log.DeliveryAdmin, "list_per_page", 100)

    def add(first: int, last: int) -> None:
        for number in range(first, last):
            make_delivery(create_notification(identifier=f"hook-{number}"), number)

    add(0, 10)
    admin_client.get(LIST)
    with CaptureQueriesContext(connection) as few:
        assert len(rows(admin_client.get(LIST))) == 10
    add(10, 100)
    with CaptureQueriesContext(connection) as many:
        assert len(rows(admin_client.get(LIST))) == 100
    assert len(many) == len(few)


def test_the_page_makes_as_many_queries_for_many_attempts_as_for_few(
    admin_client: Client, notification: Notification
) -> None:
    delivery = make_delivery(notification)
    admin_client.get(change(delivery))

    def add(count: int) -> int:
        for _ in range(count):
            Attempt.objects.create(delivery=delivery, started_at=NOON, milliseconds=1)
        with CaptureQueriesContext(connection) as queries:
            assert admin_client.get(change(delivery)).status_code == 200
        return len(queries)

    assert add(1) == add(18)


def test_the_list_shows_the_newest_and_does_not_count_the_others(
    admin_client: Client, notification: Notification, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelists, "MAX_LISTED", 3)
    for number in range(1, 6):
        make_delivery(notification, number)
    page = admin_client.get(LIST)
    assert page.context["cl"].result_count == 3
    assert "only the first are listed; use the search and the filters to find others" in page.content.decode()
    counts = [sql for sql in captured(admin_client, LIST) if "COUNT" in sql]
    assert [sql for sql in counts if "LIMIT" not in sql] == []
    # One counts the page, one the tabs.
    assert len(counts) == 2


def captured(client: Client, url: str) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        client.get(url)
    return [query["sql"] for query in queries if "notifications_delivery" in query["sql"]]


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
        *[
            "2026-03-04 12:00:05 UTC",
            "12 ms",
            "500",
            "Returned HTTP 500.",
            "&lt;script&gt;no&lt;/script&gt;",
        ],
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
def test_the_page_shows_the_url_whole_to_those_alone_who_may_change_it(
    client: Client, permissions: list[str], shown: str
) -> None:
    target = create_notification(url="https://anna:s3cret@hooks.example.com/hook?key=1")
    text = staff_who_may(client, *permissions).get(change(make_delivery(target))).content.decode()
    field = text[text.index("/admin/notifications/notification/") :]
    assert re.sub("<[^>]*>", "", field[field.index(">") + 1 : field.index("</div>")]).strip() == shown
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("permissions", "is_shown"), [(["view_delivery"], False), (["view_delivery", "change_notification"], True)]
)
def test_an_answer_is_shown_to_those_alone_who_see_the_url_that_it_may_repeat(
    client: Client, notification: Notification, permissions: list[str], is_shown: bool
) -> None:
    delivery = make_delivery(notification)
    Attempt.objects.create(
        delivery=delivery, started_at=timezone.now(), milliseconds=1, response_code=404, answer="Cannot POST /s3cret"
    )
    text = staff_who_may(client, *permissions).get(change(delivery)).content.decode()
    assert ("Cannot POST /s3cret" in text) is is_shown


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
def test_sending_to_a_target_that_is_gone_says_that_it_revives_it(
    admin_client: Client, notification: Notification, action: str
) -> None:
    Notification.objects.update(gone_at=timezone.now())
    chosen = make_delivery(notification, 1, state="pending", due_at=timezone.now())
    page = admin_client.post(LIST, select(action, chosen))
    again = "Deliveries to them resume, and they receive new events until they return 410 again."
    assert page.context["texts"][1:] == [f"Webhooks that returned 410 Gone: hook. {again}"]
    admin_client.post(LIST, hidden_fields(page))
    run_jobs()
    assert Notification.objects.get().gone_at is None


def test_sending_to_a_target_that_is_disabled_says_that_it_waits(
    admin_client: Client, notification: Notification
) -> None:
    Notification.objects.update(enabled=False)
    page = admin_client.post(LIST, select("replay_selected", make_delivery(notification, 1)))
    assert page.context["texts"][1:] == ["Disabled webhooks, which receive nothing until they are enabled: hook."]


def test_a_confirmed_replay_sends_from_the_start(
    admin_client: Client,
    notification: Notification,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    chosen = [make_delivery(notification, number, attempts_made=10) for number in (1, 2)]
    page = admin_client.post(LIST, select("replay_selected", *chosen))
    # One that was not there to be confirmed.
    make_delivery(notification, 3)
    page = admin_client.post(LIST, hidden_fields(page), follow=True)
    assert told(page) == ["Started in the worker: Replay 2 deliveries. View its progress."]
    with django_capture_on_commit_callbacks(execute=True):
        run_jobs()
    assert list(Delivery.objects.order_by("pk").values_list("identifier", "state", "attempts_made")) == [
        ("msg_1", "pending", 0),
        ("msg_2", "pending", 0),
        ("msg_3", "failed", 0),
    ]
    assert [(task.name, task.args) for task in queue.pending()] == [("deliver", (notification.pk,))]
    logged = AuditEntry.objects.order_by("object_id").values_list("object_id", "reason", "actor", "request_id")
    job = f"job-{Job.objects.get().pk}"
    assert list(logged) == [("msg_1", "Replayed.", "admin", job), ("msg_2", "Replayed.", "admin", job)]


def test_all_that_a_filter_finds_is_replayed_at_once(
    admin_client: Client, notification: Notification, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_log.DeliveryAdmin, "list_per_page", 1)
    first = make_delivery(notification, 1)
    make_delivery(notification, 2)
    make_delivery(notification, 3, state="delivered")
    url = f"{LIST}?state__exact=failed"
    page = admin_client.post(url, select("replay_selected", first, select_across="1"))
    answer = admin_client.post(url, hidden_fields(page))
    assert answer["Location"] == url
    run_jobs()
    assert set(Delivery.objects.filter(state="pending").values_list("identifier", flat=True)) == {"msg_1", "msg_2"}


def test_no_more_is_replayed_at_once_than_is_listed(
    admin_client: Client, notification: Notification, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_log, "MAX_LISTED", 2)
    chosen = [make_delivery(notification, number) for number in (1, 2, 3)]
    confirm(admin_client, LIST, select("replay_selected", *chosen))
    run_jobs()
    assert found(admin_client, "state__exact=pending") == ["msg_3", "msg_2"]


def test_what_is_on_its_way_is_left_alone(admin_client: Client, notification: Notification) -> None:
    chosen = [make_delivery(notification, 1), on_its_way(notification, 2)]
    lease = chosen[1].lease
    confirm(admin_client, LIST, select("replay_selected", *chosen))
    run_jobs()
    assert Job.objects.values("done", "skipped", "failed").get() == {"done": 1, "skipped": 1, "failed": 0}
    assert Delivery.objects.get(identifier="msg_2").lease == lease
    assert AuditEntry.objects.get().object_id == "msg_1"


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
    assert waiting.due_at <= timezone.now()
    assert (waiting.attempts_made, failed.state) == (4, "failed")
    assert list(AuditEntry.objects.values_list("object_id", "reason")) == [("msg_1", "Retried.")]


@pytest.mark.parametrize(("state", "offered"), [("failed", ["Replay"]), ("pending", ["Replay", "Retry now"])])
def test_the_page_offers_what_can_be_done(
    admin_client: Client, notification: Notification, state: str, offered: list[str]
) -> None:
    delivery = make_delivery(notification, state=state, due_at=NOON if state == "pending" else None)
    assert buttons(admin_client.get(change(delivery))) == offered


def test_the_button_replays_one_when_it_is_confirmed(admin_client: Client, notification: Notification) -> None:
    delivery = make_delivery(notification, attempts_made=10)
    url = f"{LIST}{delivery.pk}/replay/"
    page = admin_client.get(url)
    assert asked(page) == [["hook", "https://hooks.example.com/hook", "1"]]
    assert Delivery.objects.get().state == "failed"
    page = admin_client.post(url, hidden_fields(page), follow=True)
    assert page.redirect_chain == [(change(delivery), 302)]
    assert told(page) == ["Replayed: 1 delivery."]
    assert (Delivery.objects.get().state, Delivery.objects.get().attempts_made) == ("pending", 0)


def test_the_button_retries_one_when_it_is_confirmed(admin_client: Client, notification: Notification) -> None:
    later = timezone.now() + timedelta(hours=5)
    delivery = make_delivery(notification, state="pending", attempts_made=4, due_at=later)
    url = f"{LIST}{delivery.pk}/retry_now/"
    admin_client.get(url)
    assert Delivery.objects.get().due_at == later
    assert told(admin_client.post(url, follow=True)) == ["Retried: 1 delivery."]
    assert rows(admin_client.get(LIST))[0][-1] == "now"


def test_there_is_nothing_to_replay_that_does_not_exist(admin_client: Client) -> None:
    assert admin_client.post(f"{LIST}1/replay/").status_code == 404


def test_staff_who_may_only_look_have_no_button_and_send_nothing(client: Client, notification: Notification) -> None:
    viewer = staff_who_may(client, "view_delivery", "view_notification")
    delivery = make_delivery(notification, state="pending", due_at=timezone.now() + timedelta(hours=5))
    assert buttons(viewer.get(change(delivery))) == []
    assert 'name="action"' not in viewer.get(LIST).content.decode()
    for act in ("replay", "retry_now"):
        assert viewer.get(f"{LIST}{delivery.pk}/{act}/").status_code == 403
        assert viewer.post(f"{LIST}{delivery.pk}/{act}/").status_code == 403
    for act in ("replay_selected", "retry_selected_now"):
        viewer.post(LIST, select(act, delivery, confirmed=str(delivery.pk)))
    assert not Job.objects.exists()
    assert Delivery.objects.values("due_at", "state").get() == {"due_at": delivery.due_at, "state": "pending"}
    assert not AuditEntry.objects.exists()


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


def test_who_may_not_see_deliveries_may_not_replay(client: Client, notification: Notification) -> None:
    sender = staff_who_may(client, "send_delivery")
    delivery = make_delivery(notification)
    assert sender.post(f"{LIST}{delivery.pk}/replay/").status_code == 403
    assert Delivery.objects.get().state == "failed"
