"""A target that staff have disabled: nothing new is queued for it, and what is owed to it is held."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from notifications.delivery import counts, outbox
from notifications.delivery.creating import create_deliveries
from notifications.events import NOTIFICATION_TEST, NotificationData
from notifications.models import Delivery, Notification, SkippedEventCount
from notifications.replay import replay
from tests.api import Api
from tests.concurrency import in_threads
from tests.notifications.admin_pages import rows, told
from tests.notifications.clock import NOON, Clock
from tests.notifications.factories import URL, create_notification, emit_test, exchange, outcome
from tests.relayers.config_files import NOTIFICATION, load
from tests.relayers.test_dump_config import dump

pytestmark = pytest.mark.django_db

MINE = uuid.UUID(int=1)
LIST = "/admin/notifications/notification/"


@pytest.fixture(autouse=True)
def schedule(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEBHOOK_SCHEDULE = [0, 5, 300]
    monkeypatch.setattr("notifications.delivery.posting.JITTER", 0)


def set_enabled(notification: Notification, enabled: bool) -> None:
    notification.enabled = enabled
    notification.save()


def skip_test(notification: Notification) -> dict[int, str]:
    data = NotificationData(notification_id=notification.identifier)
    return create_deliveries(NOTIFICATION_TEST, [notification], data)


def states() -> list[tuple[Any, ...]]:
    return list(Delivery.objects.order_by("id").values_list("state", "attempts_made", "due_at", "lease"))


def test_an_event_for_a_disabled_target_is_skipped_and_counted() -> None:
    disabled = create_notification(identifier="off")
    set_enabled(disabled, False)
    other = create_notification(identifier="on")
    assert [skip_test(disabled), skip_test(disabled)] == [{}, {}]
    emit_test(other)
    assert Delivery.objects.values_list("notification", flat=True).get() == other.pk
    assert (counts.skipped_events(), counts.skipped_events(disabled), counts.skipped_events(other)) == (2, 2, 0)
    counts.fold_skipped()
    skip_test(disabled)
    assert (counts.skipped_events(), counts.skipped_events(disabled)) == (3, 3)
    # Those of a deleted target stay in the total.
    disabled.delete()
    assert counts.skipped_events() == 3


@pytest.mark.django_db(transaction=True)
def test_skipped_events_are_counted_exactly_while_many_are_and_are_folded() -> None:
    def count() -> None:
        for _ in range(20):
            counts.count_skipped({1: 1, 2: 2})

    def fold() -> None:
        for _ in range(10):
            counts.fold_skipped()

    in_threads(count, count, fold)
    counts.fold_skipped()
    assert sorted(SkippedEventCount.objects.values_list("target", "events")) == [(1, 40), (2, 80)]


@pytest.mark.parametrize("trouble", [{}, {"gone_at": NOON}])
def test_what_is_pending_or_replayed_is_held_until_the_target_is_enabled(
    clock: Clock, trouble: dict[str, Any]
) -> None:
    notification = create_notification()
    waiting, due = emit_test(notification), emit_test(notification)
    replayed = emit_test(notification)
    Delivery.objects.filter(pk=replayed.pk).update(state="failed", due_at=None)
    (row,) = exchange(notification, lease=MINE, room=1)
    exchange(notification, outcome(row, 500), lease=MINE, room=0)
    set_enabled(notification, False)
    assert replay(Delivery.objects.filter(pk=replayed.pk)) == 1
    before = states()
    Notification.objects.update(**trouble)
    clock.forward(10**6)
    assert outbox.due_targets() == []
    assert exchange(notification, include_failing=True) == []
    assert states() == before
    Notification.objects.update(failing_since=None, gone_at=None, enabled=True)
    assert outbox.due_targets() == [notification.pk]
    assert {row.pk for row in exchange(notification)} == {waiting.pk, due.pk, replayed.pk}


def test_what_was_in_flight_is_written_and_nothing_follows(clock: Clock) -> None:
    notification = create_notification()
    emit_test(notification)
    emit_test(notification)
    (row,) = exchange(notification, lease=MINE, room=1)
    set_enabled(notification, False)
    assert exchange(notification, outcome(row, 200), lease=MINE) == []
    assert sorted(state for state, *_ in states()) == ["delivered", "pending"]


def test_the_api_neither_shows_nor_takes_it(api: Api) -> None:
    notification = create_notification()
    set_enabled(notification, False)
    answer = api.patch("/api/v1/notifications/hook", {"url": URL})
    assert answer.body["data"] == {"id": "hook", "type": "webhook", "url": URL, "has_signing_key": False}
    assert api.patch("/api/v1/notifications/hook", {"enabled": True}).status == 400
    assert not Notification.objects.get().enabled


def page_of(notification: Notification) -> str:
    return f"{LIST}{notification.pk}/change/"


def test_staff_switch_it_in_the_form_where_a_new_one_is_enabled(admin_client: Client) -> None:
    page = admin_client.get(f"{LIST}add/").content.decode()
    (switch,) = re.findall(r'<input[^>]*name="enabled"[^>]*>', page)
    assert "checked" in switch
    notification = create_notification()
    form = {"type": "webhook", "url": URL, "initial-type": "webhook", "initial-url": URL}
    admin_client.post(page_of(notification), form | {"initial-enabled": "True"})
    assert not Notification.objects.get().enabled
    admin_client.post(page_of(notification), form | {"enabled": "on"})
    assert Notification.objects.get().enabled


def test_the_list_shows_it_as_stopped_whatever_its_trouble(admin_client: Client) -> None:
    for name, values in {"off": {}, "gone": {"gone_at": NOON}, "fails": {"failing_since": NOON}}.items():
        create_notification(identifier=name)
        Notification.objects.filter(identifier=name).update(enabled=False, **values)
    shown = {cells[0]: cells[3] for cells in rows(admin_client.get(LIST))}
    assert shown == dict.fromkeys(["off", "gone", "fails"], "Stopped disabled")
    assert len(rows(admin_client.get(f"{LIST}?state=disabled"))) == 3
    assert rows(admin_client.get(f"{LIST}?state=gone")) == []


def test_its_pages_say_what_is_held_and_skipped_and_that_no_test_is_sent(admin_client: Client) -> None:
    notification = create_notification()
    row = emit_test(notification)
    set_enabled(notification, False)
    skip_test(notification)
    text = admin_client.get(page_of(notification)).content.decode()
    assert "pending deliveries are held until it is enabled" in text
    assert "1 while it was disabled" in text
    url = f"{LIST}{notification.pk}/send_test_event/"
    assert told(admin_client.post(url, follow=True)) == ["hook is disabled. Enable it first."]
    assert Delivery.objects.get() == row
    page = admin_client.get(f"/admin/notifications/delivery/{row.pk}/change/").content.decode()
    assert "held while the webhook is disabled" in page


def test_a_fleet_file_may_say_it_and_leaves_it_alone_where_it_does_not(tmp_path: Path) -> None:
    def loaded(**fields: Any) -> tuple[list[str], bool]:
        lines, _ = load({"notifications": [NOTIFICATION | fields]}, tmp_path)
        return lines[:1], Notification.objects.get().enabled

    assert loaded(enabled=False) == (["webhook hook-1: created"], False)
    assert loaded() == (["webhook hook-1: unchanged"], False)
    assert '"enabled": false' in dump()[0]
    assert loaded(enabled=True) == (["webhook hook-1: updated (enabled)"], True)
