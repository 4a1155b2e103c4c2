"""Which events a webhook receives: those of its relayers, unless others are chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from notifications.delivery.alerts import working_targets
from notifications.emitting import emit, emit_to_all, send_test_event
from notifications.events import NOTIFICATION_FAILING, NotificationFailingData
from notifications.models import Delivery, Notification, SkippedEventCount
from notifications.subscriptions import DEFAULT, EVERYTHING
from relayers.events import RELAYER_ENABLED, RelayerChangeData, RelayerData
from tests.api import Api
from tests.contract import bodies
from tests.notifications.factories import create_notification
from tests.relayers import factories
from tests.relayers.config_files import NOTIFICATION, faults, load
from tests.relayers.test_dump_config import dump
from tokens.events import TOKEN_EXPIRING, TokenExpiringData
from tokens.writes import issue

pytestmark = pytest.mark.django_db

PATH = "/api/v1/notifications/hook"
RELAYER = RelayerData(relayer_id="relayer-1", name="Relayer 1", network="sepolia", network_type="evm")
TOKEN = TokenExpiringData(name="ci", token="rms_000000000000", expires_at="2026-01-01T12:00:00.000000Z")
FAILING = NotificationFailingData(notification_id="a", failing_since="2026-01-01T12:00:00.000000Z", error="500")


@pytest.fixture
def manager(user: User, settings: Any) -> Api:
    settings.EXTENSIONS = ["lifecycle"]
    return Api(issue(name="terraform", user=user, scopes=["manage"])[1])


@pytest.mark.parametrize(
    ("events", "received"),
    [
        (DEFAULT, ["relayer.enabled", "relayer.paused", "notification.test"]),
        (EVERYTHING, [
            "relayer.enabled", "relayer.paused", "token.expiring", "notification.failing", "notification.test"
        ]),
        ("relayer.paused token.expiring", ["relayer.paused", "token.expiring", "notification.test"]),
        ("notification.gone", ["notification.test"]),
    ],
)  # fmt: skip
def test_a_webhook_receives_what_it_chose_and_test_events(events: str, received: list[str]) -> None:
    notification = create_notification(events=events)
    relayer = factories.relayer(notification=notification)
    emit(RELAYER_ENABLED, notification, RelayerChangeData(**RELAYER, actor="user anna", reason=""))
    factories.set_paused(relayer, True)
    emit_to_all(TOKEN_EXPIRING, TOKEN)
    emit_to_all(NOTIFICATION_FAILING, FAILING)
    assert send_test_event(notification)
    assert [*Delivery.objects.order_by("pk").values_list("event", flat=True)] == received


def test_an_event_that_was_not_chosen_is_not_counted_as_skipped() -> None:
    notification = create_notification(events="token.expiring")
    Notification.objects.update(enabled=False)
    factories.set_paused(factories.relayer(notification=notification), True)
    assert (Delivery.objects.count(), SkippedEventCount.objects.count()) == (0, 0)


def test_rows_of_the_last_release_receive_every_event() -> None:
    values: list[Any] = ["hook", "webhook", "https://hooks.example.com", timezone.now()]
    columns = "INSERT INTO notifications_notification (identifier, type, url, created_at) VALUES (%s, %s, %s, %s)"
    with connection.cursor() as cursor:
        cursor.execute(columns, values)
    assert Notification.objects.get().events == EVERYTHING


def test_the_targets_of_an_event_about_the_service_are_found_by_an_index() -> None:
    create_notification(events=EVERYTHING)
    found = working_targets("token.expiring")
    assert [each.identifier for each in found] == ["hook"]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
    assert "notification_own_events" in found.explain()


def test_rest_shows_and_changes_what_a_webhook_receives(manager: Api) -> None:
    created = manager.post("/api/v1/notifications", {"id": "hook", "url": "https://hooks.example.com"})
    shown = {
        "id": "hook",
        "type": "webhook",
        "url": "https://hooks.example.com",
        "has_signing_key": False,
        "enabled": True,
        "events": ["relayer.*", "transaction.*"],
    }
    assert (created.status, created.body) == (201, bodies.success(shown))
    patch = {"enabled": False, "events": ["transaction.*", "token.expiring", "token.expiring"]}
    of_contract = {name: shown[name] for name in ("id", "type", "url", "has_signing_key")}
    assert manager.patch(PATH, patch).body == bodies.success(of_contract)
    changed = shown | {"enabled": False, "events": ["token.expiring", "transaction.*"]}
    assert manager.get(PATH).body == bodies.success(changed)
    assert manager.get("/api/v1/notifications").body == bodies.page([changed], total_items=1)
    manager.patch(PATH, {"events": None})
    assert manager.get(PATH).body == bodies.success(shown | {"enabled": False})


def test_a_choice_that_is_none_is_refused(manager: Api) -> None:
    create_notification()
    groups = "notification.*, price.*, relayer.*, token.*, transaction.*, worker.*"
    cases: list[tuple[Any, str]] = [
        ([], "events: at least one event is required: to receive none, disable the webhook"),
        (["relayer.lost"], f"events: must be names of events, or of: {groups}"),
        ("relayer.*", "events: a list is required"),
        ([1], "events[0]: a string is required"),
    ]
    for events, fault in cases:
        changed = manager.patch(PATH, {"url": "https://other.example.com", "events": events})
        assert changed.body == bodies.bad_request(fault)
        created = manager.post(
            "/api/v1/notifications", {"id": "other", "url": "https://a.example.com", "events": events}
        )
        assert bodies.uncoded(created.body) == bodies.bad_request(fault)
    assert [each.url for each in Notification.objects.all()] == ["https://hooks.example.com/hook"]


def test_without_the_extension_the_fields_are_unknown(api: Api) -> None:
    create_notification()
    answer = api.patch(PATH, {"enabled": False, "events": ["token.*"]})
    assert answer.body == bodies.bad_request("enabled: unknown field", "events: unknown field")


def test_a_fleet_file_sets_them_and_keeps_them_where_it_does_not(tmp_path: Path) -> None:
    def loaded(**fields: Any) -> tuple[str, str]:
        lines, _ = load({"notifications": [NOTIFICATION | fields]}, tmp_path)
        return lines[0], Notification.objects.get().events

    assert loaded() == ("webhook hook-1: created", DEFAULT)
    assert loaded(events=["token.*", "relayer.*"]) == ("webhook hook-1: updated (events)", "relayer.* token.*")
    assert loaded() == ("webhook hook-1: unchanged", "relayer.* token.*")
    assert '"events": [' in dump()[0]
    assert faults({"notifications": [NOTIFICATION | {"events": []}]}, tmp_path) == [
        "notifications[0].events: at least one event is required: to receive none, disable the webhook"
    ]


def test_staff_choose_them_in_the_form(admin_client: Client) -> None:
    fields = {"type": "webhook", "url": "https://hooks.example.com", "enabled": "on"}
    chosen = ["relayer.*", "token.expiring"]
    add = fields | {"identifier": "hook", "chosen_events": chosen}
    admin_client.post("/admin/notifications/notification/add/", add)
    notification = Notification.objects.get()
    assert notification.events == "relayer.* token.expiring"
    page = f"/admin/notifications/notification/{notification.pk}/change/"
    found = []
    for before, after in (chosen, ["transaction.*"]), (["transaction.*"], ["transaction.*"]), (["transaction.*"], []):
        admin_client.post(page, fields | {"chosen_events": after, "initial-chosen_events": before})
        notification.refresh_from_db()
        found.append(notification.events)
    assert found == ["transaction.*", "transaction.*", DEFAULT]
