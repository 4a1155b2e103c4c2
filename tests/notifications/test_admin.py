"""Notifications in the admin: the form, the signing key that stays inside, test events and deletion."""

from __future__ import annotations

import json
import re
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


def test_a_webhook_is_added_with_exactly_the_key_that_was_typed_or_none(admin_client: Client) -> None:
    admin_client.post(ADD, form(identifier="hook", new_signing_key=KEY))
    admin_client.post(ADD, form(identifier="other"))
    found = [(row.identifier, row.type, row.url, row.signing_key) for row in Notification.objects.order_by("pk")]
    assert found == [("hook", "webhook", URL, KEY), ("other", "webhook", URL, None)]


def test_url_and_key_are_checked_by_the_rules_of_the_api(admin_client: Client) -> None:
    faults = {
        "": "This field is required.",
        "ftp://example.com/": "an absolute http or https URL is required",
        "https://example.com:22/": "the port must be 80, 443 or at least 1024",
    }
    for url, fault in faults.items():
        assert errors(admin_client.post(ADD, form(identifier="hook", url=url))) == {"url": [fault]}
    page = admin_client.post(ADD, form(identifier="hook", new_signing_key="whsec_not base64"))
    no_key = ["The signing key starts with whsec_ but is not valid base64 after it."]
    assert errors(page) == {"new_signing_key": no_key}
    assert not Notification.objects.exists()
    notification = create_notification(signing_key="old key")
    page = admin_client.post(change(notification), form(new_signing_key="new key", remove_signing_key="on"))
    assert errors(page) == {"remove_signing_key": ["Enter a new key or remove the current one, not both."]}
    assert Notification.objects.get().signing_key == "old key"


def test_a_key_is_kept_replaced_or_removed_and_the_id_stays(admin_client: Client) -> None:
    notification = create_notification(signing_key="old key")
    assert 'name="identifier"' not in admin_client.get(change(notification)).content.decode()
    changes: list[tuple[dict[str, str], str | None]] = [
        ({"identifier": "other"}, "old key"),
        ({"new_signing_key": KEY}, KEY),
        ({"remove_signing_key": "on"}, None),
    ]
    for fields, key in changes:
        admin_client.post(change(notification), form(**fields))
        assert (Notification.objects.get().identifier, Notification.objects.get().signing_key) == ("hook", key)


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


def test_only_what_staff_changed_is_written_and_another_url_forgets_the_old_one(admin_client: Client) -> None:
    now = timezone.now()
    notification = create_notification()
    Notification.objects.update(failing_since=now, gone_at=now)
    url = "https://new.example.com/"
    for fields, columns in [
        ({}, set()),
        ({"new_signing_key": "key"}, {"signing_key"}),
        ({"url": url}, {"url", "failing_since", "failing_error", "gone_at", "tried"}),
    ]:
        with CaptureQueriesContext(connection) as queries:
            admin_client.post(change(notification), form(**fields))
        updates = [query["sql"] for query in queries if query["sql"].startswith('UPDATE "notifications_notification"')]
        written = [set(re.findall(r'"(\w+)" = ', update.partition("WHERE")[0])) for update in updates]
        assert written == ([columns] if columns else [])
    assert Notification.objects.values_list("url", "failing_since", "gone_at").get() == (url, None, None)


def test_what_another_changed_since_the_page_was_opened_stays(admin_client: Client) -> None:
    notification = create_notification()
    assert f'name="initial-url" value="{URL}"' in admin_client.get(change(notification)).content.decode()
    Notification.objects.update(url="https://theirs.example.com/")
    admin_client.post(change(notification), form(new_signing_key="key"))
    notification = Notification.objects.get()
    assert (notification.url, notification.signing_key) == ("https://theirs.example.com/", "key")


def test_the_list_shows_filters_and_finds_what_matters_and_no_secret(admin_client: Client) -> None:
    day = timezone.now().replace(year=2026, month=3, day=4, hour=5, minute=6)
    create_notification(identifier="fine", url=URL_WITH_PASSWORD, signing_key="key")
    create_notification(identifier="slow", url="https://hooks.example.com/services/T0/B0/s3cret")
    create_notification(identifier="left", url="https://hooks.example.com/?key=s3cret")
    create_notification(identifier="new")
    Notification.objects.update(created_at=day)
    Notification.objects.exclude(identifier="new").update(tried=True)
    Notification.objects.filter(identifier__in=["slow", "left"]).update(failing_since=day)
    Notification.objects.filter(identifier="left").update(gone_at=day)
    page = admin_client.get(LIST)
    created = "2026-03-04 05:06 UTC"
    assert rows(page) == [
        ["new", URL, "none", "Not tried yet", created],
        ["left", "https://hooks.example.com/…", "none", f"Stopped returned 410 at {created}", created],
        ["slow", "https://hooks.example.com/services/T0…", "none", f"Failing, retrying since {created}", created],
        ["fine", URL, "set", "Working", created],
    ]
    assert "s3cret" not in page.content.decode()
    expected = {
        "state=ok": ["fine", "new"],
        "state=failing": ["slow"],
        "state=gone": ["left"],
        "q=NEW": ["new"],
        "q=https://hooks.": ["left", "new", "slow"],
        "q=ample": ["fine", "left", "new", "slow"],
        "q=ample_": [],
    }
    found = {query: [row[0] for row in rows(admin_client.get(f"{LIST}?{query}"))] for query in expected}
    assert {query: sorted(names) for query, names in found.items()} == expected
    for lookup in ("signing_key__startswith", "signing_key__isnull", "url__contains", "failing_since__gt"):
        assert admin_client.get(f"{LIST}?{lookup}=1").status_code == 400


def test_staff_who_may_only_look_see_no_secret_and_no_button(client: Client) -> None:
    viewer = staff_who_may(client, "view_notification")
    notification = create_notification(url=URL_WITH_PASSWORD, signing_key="a-key")
    page = viewer.get(change(notification))
    text = page.content.decode()
    assert "https://hooks.example.com/***" in text
    assert "s3cret" not in text
    assert URL not in text
    listed = viewer.get(LIST)
    assert [row[:3] for row in rows(listed)] == [["hook", "https://hooks.example.com/***", "set"]]
    assert buttons(page) == []
    assert not re.search(r'name="(url|new_signing_key|remove_signing_key|_save)"', text)
    assert 'name="action"' not in listed.content.decode()
    assert viewer.post(change(notification), form(new_signing_key="theirs")).status_code == 403


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


def test_a_test_event_is_sent_from_the_page_also_to_a_target_that_was_gone(
    admin_client: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    notification = create_notification(url=URL_WITH_PASSWORD)
    Notification.objects.update(gone_at=timezone.now())
    url = f"{LIST}{notification.pk}/send_test_event/"
    with django_capture_on_commit_callbacks(execute=True):
        page = admin_client.post(url, follow=True)
    sent = Delivery.objects.get()
    assert told(page) == [f"Test event sent to hook: {sent.identifier}."]
    assert (sent.notification, sent.event, sent.state) == (notification, "notification.test", "pending")
    assert json.loads(bytes(sent.body))["data"] == {"notification_id": "hook"}
    assert [(task.name, task.args) for task in queue.pending()] == [("deliver", (notification.pk,))]
    assert AuditEntry.objects.get().reason == f"Sent a test event, {sent.identifier}."
    assert Notification.objects.get().gone_at is None
    assert admin_client.post(f"{LIST}999/send_test_event/").status_code == 404


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


def test_the_page_names_who_uses_it_with_as_many_queries_for_many(client: Client, admin_client: Client) -> None:
    notification = create_notification()
    emit_test(notification)
    assert shown(admin_client.get(change(notification)), "used_by") == "nothing"
    relayers = [factories.relayer(identifier=f"r-{number}", notification=notification) for number in range(12)]
    admin_client.get(LIST)
    with CaptureQueriesContext(connection) as few:
        page = admin_client.get(change(notification))
        admin_client.get(LIST)
    links = [
        f'<a class="underline" href="/admin/relayers/relayer/{row.pk}/change/">{row}</a>' for row in relayers[:10]
    ]
    query = f"notification__sequence__exact={notification.pk}"
    more = f'<a class="underline" href="/admin/relayers/relayer/?{query}">2 more</a>'
    assert shown(page, "used_by") == f"12 relayers: {', '.join(links)} and {more}"
    for number in range(12, 60):
        factories.relayer(identifier=f"r-{number}", notification=notification)
        create_notification(identifier=f"more-{number}")
    with CaptureQueriesContext(connection) as many:
        page = admin_client.get(change(notification))
        assert len(rows(admin_client.get(LIST))) == 49
    assert shown(page, "used_by").endswith(">50 more</a>")
    assert len(many) == len(few)
    viewer = staff_who_may(client, "view_notification")
    assert shown(viewer.get(change(notification)), "use_counts") == "60 relayers"
