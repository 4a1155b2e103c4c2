"""Notifications in the admin: the form, the signing key that stays inside, test events and deletion."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from notifications.models import Delivery, Notification
from relayer_service.background.tasks import queue
from relayer_service.models import AuditEntry, Job
from tests.notifications.admin_pages import buttons, confirm, rows, shown, staff_who_may, told
from tests.notifications.factories import create_notification, emit_test
from tests.relayer_service.jobs import run_jobs
from tests.relayers import factories

pytestmark = pytest.mark.django_db

LIST = "/admin/notifications/notification/"
ADD = f"{LIST}add/"
KEY = "  a key, ключ, 鍵  "
URL = "https://hooks.example.com/hook"
URL_WITH_PASSWORD = "https://anna:s3cret@hooks.example.com/hook"


def change(notification: Notification) -> str:
    return f"{LIST}{notification.pk}/change/"


def form(url: str = URL, **fields: str) -> dict[str, str]:
    """What a browser sends: what is in the fields, and what the page showed in them."""
    shown = {"initial-type": "webhook", "initial-url": URL}
    return {**shown, "type": "webhook", "url": url, "new_signing_key": "", **fields}


def errors(page: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = page.context["adminform"].form.errors
    return found


def test_a_notification_is_added_with_exactly_the_key_that_was_typed(admin_client: Client) -> None:
    admin_client.post(ADD, form(identifier="hook", new_signing_key=KEY))
    notification = Notification.objects.get()
    assert (notification.identifier, notification.type, notification.url) == ("hook", "webhook", URL)
    assert notification.signing_key == KEY


def test_a_notification_is_added_without_a_key(admin_client: Client) -> None:
    admin_client.post(ADD, form(identifier="hook"))
    assert not Notification.objects.get().has_signing_key


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("", "This field is required."),
        ("ftp://example.com/", "an absolute http or https URL is required"),
        ("https://example.com/a b", "spaces, backslashes and control characters are not allowed in a URL"),
        ("https://example.com:22/", "the port must be 80, 443 or at least 1024"),
        ("http://10.0.0.1/", "private, local and reserved addresses are not allowed"),
    ],
)
def test_a_url_is_checked_by_the_rules_of_the_api(admin_client: Client, url: str, fault: str) -> None:
    page = admin_client.post(ADD, form(identifier="hook", url=url))
    assert errors(page) == {"url": [fault]}
    assert not Notification.objects.exists()


def test_a_key_that_nothing_can_be_signed_with_is_refused(admin_client: Client) -> None:
    page = admin_client.post(ADD, form(identifier="hook", new_signing_key="whsec_not base64"))
    assert errors(page) == {
        "new_signing_key": ["The signing key starts with whsec_ but is not valid base64 after it."]
    }
    assert not Notification.objects.exists()


def test_the_id_cannot_be_changed(admin_client: Client) -> None:
    notification = create_notification()
    assert 'name="identifier"' not in admin_client.get(change(notification)).content.decode()
    admin_client.post(change(notification), form(identifier="other"))
    assert Notification.objects.get().identifier == "hook"


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({}, "old key"),
        ({"new_signing_key": KEY}, KEY),
        ({"remove_signing_key": "on"}, None),
    ],
)
def test_a_key_is_kept_replaced_or_removed(admin_client: Client, fields: dict[str, str], key: str | None) -> None:
    notification = create_notification(signing_key="old key")
    admin_client.post(change(notification), form(**fields))
    assert Notification.objects.get().signing_key == key


def test_a_key_is_not_replaced_and_removed_at_once(admin_client: Client) -> None:
    notification = create_notification(signing_key="old key")
    page = admin_client.post(change(notification), form(new_signing_key="new key", remove_signing_key="on"))
    assert errors(page) == {"remove_signing_key": ["Enter a new key or remove the current one, not both."]}
    assert Notification.objects.get().signing_key == "old key"


def test_a_key_is_on_no_page_not_even_after_a_mistake(admin_client: Client) -> None:
    notification = create_notification(signing_key="old-key")
    wrong = admin_client.post(change(notification), form(url="nonsense", new_signing_key="new-key"))
    assert errors(wrong) != {}
    admin_client.post(change(notification), form(new_signing_key="new-key"))
    paths = [change(notification), LIST, f"{LIST}{notification.pk}/history/", "/admin/"]
    pages = [wrong, *(admin_client.get(path) for path in paths)]
    stored = Notification.objects.values_list("signing_key", flat=True).get()
    assert stored
    for page in pages:
        text = page.content.decode()
        assert "old-key" not in text
        assert "new-key" not in text
        assert stored.text not in text
    assert "signing_key: changed" in pages[3].content.decode()


def test_a_key_that_cannot_be_decrypted_is_replaced_by_another(admin_client: Client, settings: Settings) -> None:
    notification = create_notification(signing_key="old key")
    settings.ENCRYPTION_KEYS = {"2": bytes(range(50, 82))}
    assert admin_client.get(change(notification)).status_code == 200
    assert rows(admin_client.get(LIST))[0][2] == "set"
    admin_client.post(change(notification), form(new_signing_key=KEY))
    assert Notification.objects.get().signing_key == KEY


def test_another_url_forgets_what_was_known_of_the_old_one(admin_client: Client) -> None:
    now = timezone.now()
    notification = create_notification()
    Notification.objects.update(failing_since=now, gone_at=now)
    admin_client.post(change(notification), form(new_signing_key="key"))
    assert Notification.objects.values("failing_since", "gone_at").get() == {"failing_since": now, "gone_at": now}
    admin_client.post(change(notification), form(url="https://new.example.com/"))
    assert Notification.objects.values("url", "failing_since", "gone_at").get() == {
        "url": "https://new.example.com/",
        "failing_since": None,
        "gone_at": None,
    }


@pytest.mark.parametrize(
    ("fields", "columns"),
    [
        ({}, set()),
        ({"new_signing_key": "key"}, {"signing_key"}),
        ({"url": "https://new.example.com/"}, {"url", "failing_since", "failing_error", "gone_at", "tried"}),
    ],
)
def test_only_what_staff_changed_is_written(admin_client: Client, fields: dict[str, str], columns: set[str]) -> None:
    notification = create_notification()
    with CaptureQueriesContext(connection) as queries:
        admin_client.post(change(notification), form(**fields))
    updates = [query["sql"] for query in queries if query["sql"].startswith('UPDATE "notifications_notification"')]
    written = [re.findall(r'"(\w+)" = ', update.partition("WHERE")[0]) for update in updates]
    assert written == ([written[0]] if columns else [])
    assert {name for names in written for name in names} == columns


def test_what_another_changed_since_the_page_was_opened_stays(admin_client: Client) -> None:
    notification = create_notification()
    assert f'name="initial-url" value="{URL}"' in admin_client.get(change(notification)).content.decode()
    Notification.objects.update(url="https://theirs.example.com/")
    admin_client.post(change(notification), form(new_signing_key="key"))
    notification = Notification.objects.get()
    assert (notification.url, notification.signing_key) == ("https://theirs.example.com/", "key")


def test_the_list_shows_what_matters_and_no_password(admin_client: Client) -> None:
    day = timezone.now().replace(year=2026, month=3, day=4, hour=5, minute=6)
    create_notification(identifier="fine", url=URL_WITH_PASSWORD, signing_key="key")
    create_notification(identifier="slow")
    create_notification(identifier="left")
    create_notification(identifier="new")
    Notification.objects.update(created_at=day)
    Notification.objects.exclude(identifier="new").update(tried=True)
    Notification.objects.filter(identifier__in=["slow", "left"]).update(failing_since=day)
    Notification.objects.filter(identifier="left").update(gone_at=day)
    page = admin_client.get(LIST)
    assert rows(page) == [
        ["new", URL, "none", "Not tried yet", "2026-03-04 05:06 UTC"],
        ["left", URL, "none", "Stopped returned 410 at 2026-03-04 05:06 UTC", "2026-03-04 05:06 UTC"],
        ["slow", URL, "none", "Failing, retrying since 2026-03-04 05:06 UTC", "2026-03-04 05:06 UTC"],
        ["fine", URL, "set", "Working", "2026-03-04 05:06 UTC"],
    ]
    assert "s3cret" not in page.content.decode()


@pytest.mark.parametrize(("state", "found"), [("ok", "fine"), ("failing", "slow"), ("gone", "left")])
def test_the_list_is_filtered_by_state(admin_client: Client, state: str, found: str) -> None:
    for identifier in ("fine", "slow", "left"):
        create_notification(identifier=identifier)
    Notification.objects.exclude(identifier="fine").update(failing_since=timezone.now())
    Notification.objects.filter(identifier="left").update(gone_at=timezone.now())
    assert [row[0] for row in rows(admin_client.get(f"{LIST}?state={state}"))] == [found]


@pytest.mark.parametrize(
    ("query", "found"), [("HOOK-", 1), ("hooks.example", 1), ("https://hooks.", 1), ("example", 1), ("ample_", 0)]
)
def test_notifications_are_found_by_any_part_of_id_and_url(admin_client: Client, query: str, found: int) -> None:
    create_notification(identifier="hook-1")
    assert len(rows(admin_client.get(f"{LIST}?q={query}"))) == found


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (URL_WITH_PASSWORD, "https://hooks.example.com/hook"),
        ("https://hooks.example.com/services/T0/B0/s3cret", "https://hooks.example.com/services/T0…"),
        ("https://hooks.example.com/?key=s3cret", "https://hooks.example.com/…"),
    ],
)
def test_the_list_shows_the_start_of_a_url(admin_client: Client, url: str, shown: str) -> None:
    create_notification(url=url)
    page = admin_client.get(LIST)
    assert rows(page)[0][1] == shown
    assert "s3cret" not in page.content.decode()


def test_staff_who_may_only_look_see_no_secret_and_no_button(client: Client) -> None:
    viewer = staff_who_may(client, "view_notification")
    notification = create_notification(url=URL_WITH_PASSWORD, signing_key="a-key")
    page = viewer.get(change(notification))
    text = page.content.decode()
    assert "https://hooks.example.com/***" in text
    assert "s3cret" not in text
    assert URL not in text
    assert [row[:3] for row in rows(viewer.get(LIST))] == [["hook", "https://hooks.example.com/***", "set"]]
    assert buttons(page) == []
    assert not re.search(r'name="(url|new_signing_key|remove_signing_key|_save)"', text)
    assert 'name="action"' not in viewer.get(LIST).content.decode()
    assert viewer.post(change(notification), form(new_signing_key="theirs")).status_code == 403
    assert viewer.post(f"{LIST}{notification.pk}/send_test_event/").status_code == 403
    assert not Delivery.objects.exists()


def test_a_password_that_was_accepted_in_a_url_is_kept_and_not_shown(admin_client: Client) -> None:
    notification = create_notification(url=URL_WITH_PASSWORD)
    page = change(notification)
    assert "s3cret" not in admin_client.get(page).content.decode()
    assert admin_client.post(page, form(new_signing_key="new")).status_code == 302
    notification.refresh_from_db()
    assert (notification.url, notification.signing_key) == (URL_WITH_PASSWORD, "new")
    refused = admin_client.post(page, form(url="https://anna:another@hooks.example.com/hook"))
    assert refused.context["errors"] == [["a user name or a password is not allowed in this URL"]]
    admin_client.post(page, form(url=f"{URL}/b"))
    notification.refresh_from_db()
    assert notification.url == f"{URL}/b"


def test_a_password_in_a_url_cannot_be_guessed_by_searching(client: Client, admin_client: Client) -> None:
    create_notification(url=URL_WITH_PASSWORD)
    viewer = staff_who_may(client, "view_notification")
    begun = URL_WITH_PASSWORD.partition("@")[0]
    assert "s3cret" in begun
    assert rows(viewer.get(f"{LIST}?q={begun}")) == []
    assert len(rows(admin_client.get(f"{LIST}?q={begun}"))) == 1


@pytest.mark.parametrize(
    "lookup", ["signing_key__startswith=1:", "signing_key__isnull=0", "url__contains=s3cret", "failing_since__gt=2000"]
)
def test_the_list_cannot_be_filtered_by_what_it_does_not_show(admin_client: Client, lookup: str) -> None:
    create_notification()
    assert admin_client.get(f"{LIST}?{lookup}").status_code == 400


def test_the_list_makes_as_many_queries_for_many_notifications_as_for_few(admin_client: Client) -> None:
    for number in range(10):
        create_notification(identifier=f"few-{number}")
    admin_client.get(LIST)
    with CaptureQueriesContext(connection) as few:
        assert len(rows(admin_client.get(LIST))) == 10
    for number in range(90):
        create_notification(identifier=f"more-{number}")
    with CaptureQueriesContext(connection) as many:
        assert len(rows(admin_client.get(LIST))) == 50
    assert len(many) == len(few)


def test_a_test_event_is_sent_from_the_page(
    admin_client: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    notification = create_notification(url=URL_WITH_PASSWORD)
    url = f"{LIST}{notification.pk}/send_test_event/"
    with django_capture_on_commit_callbacks(execute=True):
        page = admin_client.post(url, follow=True)
    sent = Delivery.objects.get()
    assert told(page) == [f"Test event sent to hook: {sent.identifier}."]
    assert (sent.notification, sent.event, sent.state) == (notification, "notification.test", "pending")
    assert json.loads(bytes(sent.body))["data"] == {"notification_id": "hook"}
    assert [(task.name, task.args) for task in queue.pending()] == [("deliver", (notification.pk,))]
    assert AuditEntry.objects.get().reason == f"Sent a test event, {sent.identifier}."


def test_a_test_event_tries_a_target_again_that_was_gone(admin_client: Client) -> None:
    notification = create_notification(signing_key="key")
    Notification.objects.update(gone_at=timezone.now())
    url = f"{LIST}{notification.pk}/send_test_event/"
    admin_client.post(url)
    assert Notification.objects.get().gone_at is None


def test_a_test_event_is_sent_to_each_selected_notification(admin_client: Client) -> None:
    chosen = [create_notification(identifier=name) for name in ("one", "two", "off")]
    create_notification(identifier="three")
    form = {"action": "send_test_event_to_selected", "_selected_action": [item.pk for item in chosen]}
    Notification.objects.filter(identifier="off").update(enabled=False)
    assert admin_client.post(LIST, form).context["texts"] == [
        "A test event is sent immediately to 2 webhooks.",
        "Skipped: 1 (disabled).",
    ]
    confirm(admin_client, LIST, form)
    run_jobs()
    assert Job.objects.values("done", "skipped", "failed").get() == {"done": 2, "skipped": 1, "failed": 0}
    assert set(Delivery.objects.values_list("notification__identifier", flat=True)) == {"one", "two"}


def test_there_is_no_test_event_for_what_does_not_exist(admin_client: Client) -> None:
    assert admin_client.post(f"{LIST}1/send_test_event/").status_code == 404


def test_the_overview_counts_what_does_not_arrive(admin_client: Client) -> None:
    now = timezone.now()
    notification = create_notification()
    create_notification(identifier="slow")
    create_notification(identifier="left")
    Notification.objects.exclude(identifier="hook").update(failing_since=now)
    Notification.objects.filter(identifier="left").update(gone_at=now)
    for attempted in (None, now, now - timedelta(days=2)):
        row = emit_test(notification)
        if attempted:
            Delivery.objects.filter(pk=row.pk).update(state="failed", due_at=None, attempted_at=attempted)
    cards = {card.title: card for card in admin_client.get("/admin/").context["cards"]}
    shown = [[re.sub("<[^>]*>", "", cell).strip() for cell in row] for row in cards["Webhooks"].rows]
    assert shown == [
        ["Pending", "1"],
        ["Failed in the last day", "1"],
        ["Failing webhooks", "1"],
        ["Webhooks that returned 410", "1"],
    ]


@pytest.mark.parametrize(
    ("permissions", "shown"),
    [(["view_notification"], False), (["view_delivery"], False), (["view_notification", "view_delivery"], True)],
)
def test_the_overview_shows_webhooks_to_those_who_may_see_them(
    client: Client, permissions: list[str], shown: bool
) -> None:
    page = staff_who_may(client, *permissions).get("/admin/").context
    assert ("Webhooks" in [card.title for card in [*page["cards"], *page["quiet_cards"]]]) is shown


def test_a_notification_says_who_uses_it(admin_client: Client) -> None:
    notification = create_notification()
    emit_test(notification)
    assert shown(admin_client.get(change(notification)), "used_by") == "nothing"
    relayers = [factories.relayer(identifier=f"r-{number}", notification=notification) for number in range(12)]
    with CaptureQueriesContext(connection) as few:
        page = admin_client.get(change(notification))
    links = [
        f'<a class="underline" href="/admin/relayers/relayer/{row.pk}/change/">{row}</a>' for row in relayers[:10]
    ]
    query = f"notification__sequence__exact={notification.pk}"
    more = f'<a class="underline" href="/admin/relayers/relayer/?{query}">2 more</a>'
    assert shown(page, "used_by") == f"12 relayers: {', '.join(links)} and {more}"
    for number in range(12, 60):
        factories.relayer(identifier=f"r-{number}", notification=notification)
    with CaptureQueriesContext(connection) as many:
        page = admin_client.get(change(notification))
    assert shown(page, "used_by").endswith(">50 more</a>")
    assert len(many) == len(few)


def test_who_may_not_see_relayers_sees_how_many_use_a_notification(client: Client) -> None:
    notification = create_notification()
    factories.relayer(notification=notification)
    viewer = staff_who_may(client, "view_notification")
    assert shown(viewer.get(change(notification)), "use_counts") == "1 relayer"
