"""Channels for people: e-mail and Slack, which receive the chosen events of all relayers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core import mail
from django.core.exceptions import ValidationError
from django.db import transaction
from django.test import Client
from pytest_django import Settings

from notifications.emitting import emit, send_test_event
from notifications.models import Delivery, Notification, mailto
from relayer_service.storage.selections import Selection
from relayers.events import RELAYER_LOW_BALANCE, RelayerBalanceData
from relayers.pausing import set_all_paused
from rpc.fees import price_checks
from tests.notifications.factories import create_notification, exchange, make_delivery, send
from tests.notifications.mail_servers import LOOPBACK, MailServer, mail_server
from tests.notifications.receivers import receiver
from tests.relayers import factories
from tests.relayers.config_files import SIGNER, SPARSE, faults, load
from tests.relayers.test_dump_config import dump
from tests.rpc import factories as rpc_factories
from tests.servers import free_port
from tests.transactions import factories as sending
from transactions.changes import Changes
from transactions.models import Hold
from transactions.records.states import Cause
from transactions.settlement.nonces.holds import hold

SMTP = "django.core.mail.backends.smtp.EmailBackend"
ADD = "/admin/notifications/notification/add/"
LOW = RelayerBalanceData(
    relayer_id="mainnet-1", name="<!channel> & co", network="mainnet", network_type="evm", balance="1", min_balance="2"
)
TEXT = """The balance of a relayer fell below its min_balance.

relayer_id: mainnet-1
name: <!channel> & co
network: mainnet
network_type: evm
balance: 1
min_balance: 2
time: 2026-01-01T12:00:00.000000Z"""


def email(*addresses: str, **fields: Any) -> Notification:
    url = mailto(", ".join(addresses or ["ops@example.com"]))
    values = {"identifier": "mail", "type": "email", "url": url, "events": "relayer.*"} | fields
    return Notification.objects.create(**values)


def slack(**fields: Any) -> Notification:
    values = {"identifier": "chat", "type": "slack", "url": "https://hooks.example.com/T0", "events": "relayer.*"}
    return Notification.objects.create(**values | fields)


def low_balance() -> Delivery:
    emit(RELAYER_LOW_BALANCE, None, LOW)
    delivery: Delivery = Delivery.objects.select_related("notification").get()
    return delivery


@pytest.fixture
def server(settings: Settings) -> Iterator[MailServer]:
    with mail_server() as running:
        settings.EMAIL_BACKEND, settings.EMAIL_HOST, settings.EMAIL_PORT = SMTP, LOOPBACK, running.port
        settings.EMAIL_USE_TLS = False
        yield running


@pytest.mark.django_db
def test_an_event_of_any_relayer_is_sent_by_e_mail_once_the_server_accepts_it(
    server: MailServer, settings: Settings, clock: object
) -> None:
    settings.WEBHOOK_SCHEDULE = [0, 0]
    server.refusal = "550 No such user"
    channel = email("ops@example.com", "oncall@example.com")
    low_balance()
    (claimed,) = exchange(channel, lease=(lease := uuid.uuid4()))
    exchange(channel, *send(claimed), lease=lease, room=0)
    row = Delivery.objects.get()
    assert (row.state, row.attempts_made, row.response_code) == ("pending", 1, 550)
    assert row.error == "The mail server refused all addresses."
    assert (row.due_at is None, Notification.objects.get().failing_since is None) == (False, False)

    server.refusal = ""
    (claimed,) = exchange(channel, lease=lease, include_failing=True)
    exchange(channel, *send(claimed), lease=lease)
    (message,) = server.messages
    assert (message["Subject"], message["From"], message["To"]) == (
        "[Relayers] relayer.low_balance: mainnet-1",
        "relayers@localhost",
        "ops@example.com, oncall@example.com",
    )
    assert message["Message-ID"] == f"<{claimed.identifier}@localhost>"
    assert message.get_content().replace("\r\n", "\n").strip() == TEXT
    row = Delivery.objects.get()
    assert (row.state, row.response_code, row.error) == ("delivered", 250, "")


def of_mail(**fields: Any) -> Delivery:
    delivery = make_delivery(mailto("ops@example.com"), **fields)
    delivery.notification.type = Notification.Type.EMAIL
    return delivery


def test_a_mail_server_that_is_not_there_or_not_set_is_named(settings: Settings) -> None:
    settings.EMAIL_BACKEND, settings.EMAIL_HOST, settings.EMAIL_PORT = SMTP, LOOPBACK, free_port()
    assert send(of_mail())[0].error == "Cannot connect to the mail server."
    settings.EMAIL_HOST = ""
    assert send(of_mail())[0].error == "No mail server is configured. Set EMAIL_URL."


def test_a_line_break_in_an_event_adds_no_header(settings: Settings) -> None:
    body = json.dumps({"type": "relayer.paused", "data": {"relayer_id": "a\r\nBcc: evil@example.com"}}).encode()
    delivery = make_delivery(mailto("ops@example.com"), body=body)
    delivery.notification.type = Notification.Type.EMAIL
    assert send(delivery)[0].response_code == 250
    (message,) = mail.outbox
    assert message.subject == "[Relayers] relayer.paused: a Bcc: evil@example.com"
    assert message.recipients() == ["ops@example.com"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "at least one e-mail address is required"),
        ("nobody", "Enter a valid email address."),
        ("a@example.com\r\nBcc:b@example.com", "Enter a valid email address."),
        (" ".join(f"a{number}@example.com" for number in range(21)), "at most 20 e-mail addresses are allowed"),
    ],
)
def test_addresses_are_checked(text: str, error: str) -> None:
    with pytest.raises(ValidationError) as raised:
        mailto(text)
    assert raised.value.messages == [error]


@pytest.mark.django_db
def test_slack_receives_a_text_in_its_format(clock: object) -> None:
    with receiver() as target:
        channel = slack(url=target.url)
        send(low_balance())
    (request,) = target.requests
    escaped = TEXT.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert json.loads(request.body) == {"text": f"*relayer.low_balance: mainnet-1*\n{escaped}"}
    assert "webhook-signature" not in request.headers
    assert channel.deliveries.get().event == "relayer.low_balance"


@pytest.mark.django_db
def test_channels_receive_what_they_chose_and_no_more() -> None:
    email(events="relayer.low_balance relayer.held")
    slack(events="relayer.disabled price.*")
    slack(identifier="off", events="relayer.*", enabled=False)
    create_notification()
    emit(RELAYER_LOW_BALANCE, None, LOW)
    hold(sending.lane(factories.relayer()), Hold.OPERATOR, "Maintenance.")
    price_checks._announce(rpc_factories.fee_token(), "No node answers.")
    rows = Delivery.objects.order_by("pk").values_list("notification__identifier", "event")
    assert list(rows) == [("mail", "relayer.low_balance"), ("mail", "relayer.held"), ("chat", "price.failed")]


@pytest.mark.django_db
def test_channels_receive_the_events_of_transactions_that_they_chose() -> None:
    email(events="transaction.failed transaction.canceled")
    slack(events="transaction.*")
    email(identifier="default", events="relayer.* transaction.refused")
    lane = sending.lane(factories.relayer(notification=factories.notification()))
    rows = [sending.transaction(lane, valid_until=sending.SIGNED_AT) for _ in range(2)]
    with transaction.atomic():
        changes = Changes()
        changes.move(rows[0], Cause.EXPIRED)
        changes.move(rows[1], Cause.CANCELED)
        changes.save()
    found = Delivery.objects.order_by("pk").values_list("event", "notification__identifier")
    assert list(found) == [
        ("transaction.expired", "hook-1"),
        ("transaction.expired", "chat"),
        ("transaction.canceled", "hook-1"),
        ("transaction.canceled", "mail"),
        ("transaction.canceled", "chat"),
    ]


@pytest.mark.django_db
def test_a_channel_receives_the_first_events_of_a_bulk_action() -> None:
    email()
    relayers = [factories.relayer(identifier=f"r-{number}") for number in range(25)]
    set_all_paused(Selection.from_keys(relayer.pk for relayer in relayers), True)
    assert Delivery.objects.filter(event="relayer.paused").count() == 20


@pytest.mark.django_db
def test_a_test_event_is_sent_to_a_channel() -> None:
    sent = send_test_event(email())
    assert sent
    assert send(Delivery.objects.select_related("notification").get(pk=sent.pk))[0].response_code == 250
    assert [message.subject for message in mail.outbox] == ["[Relayers] notification.test: mail"]


@pytest.mark.django_db
def test_an_e_mail_channel_is_added_changed_and_offered_to_no_relayer(admin_client: Client) -> None:
    fields = {"identifier": "mail", "type": "email", "url": "", "addresses": "a@example.com b@example.com"}
    page = admin_client.post(ADD, fields | {"new_signing_key": "", "enabled": "on"})
    assert page.status_code == 302
    row = Notification.objects.get()
    assert (row.type, row.url, row.addresses, row.events) == (
        "email",
        "mailto:a@example.com,b@example.com",
        ["a@example.com", "b@example.com"],
        "relayer.* transaction.refused",
    )
    url = f"/admin/notifications/notification/{row.pk}/change/"
    assert "Generate key" not in admin_client.get(url).content.decode()
    admin_client.post(url, {"addresses": "c@example.com", "enabled": "on"})
    assert Notification.objects.get().url == "mailto:c@example.com"
    page = admin_client.post(url, {"addresses": "nobody", "enabled": "on"})
    assert page.context["adminform"].form.errors == {"addresses": ["Enter a valid email address."]}
    page = admin_client.post(ADD, {"identifier": "hook", "type": "webhook", "url": "mailto:a@example.com"})
    assert page.context["adminform"].form.errors == {"url": ["an absolute http or https URL is required"]}
    create_notification()
    query = "app_label=relayers&model_name=relayer&field_name=notification"
    found = admin_client.get(f"/admin/autocomplete/?{query}").json()["results"]
    assert [item["text"] for item in found] == ["hook"]
    text = admin_client.get(f"/admin/notifications/delivery/{low_balance().pk}/change/").content.decode()
    assert "Subject: relayer.low_balance: mainnet-1" in text
    assert "curl" not in text


MAIL = {"id": "mail", "type": "email", "url": "mailto:a@example.com, b@example.com", "events": ["relayer.held"]}
CHAT = {"id": "chat", "type": "slack", "url": "https://hooks.example.com/services/SECRET", "enabled": False}


@pytest.mark.django_db
def test_channels_are_loaded_and_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load({"notifications": [MAIL, CHAT]}, tmp_path)
    rows = Notification.objects.order_by("sequence").values_list("type", "url", "enabled", "events")
    assert list(rows) == [
        ("email", "mailto:a@example.com,b@example.com", True, "relayer.held"),
        ("slack", CHAT["url"], False, "relayer.* transaction.refused"),
    ]
    output, _ = dump()
    assert json.loads(output)["notifications"] == [
        {**MAIL, "url": "mailto:a@example.com,b@example.com", "enabled": True},
        {**CHAT, "url": "${NOTIFICATION_CHAT_URL}", "events": ["relayer.*", "transaction.refused"]},
    ]
    monkeypatch.setenv("NOTIFICATION_CHAT_URL", str(CHAT["url"]))
    assert load(output.encode(), tmp_path)[0][-1] == "0 created, 0 updated, 2 unchanged."


@pytest.mark.django_db
def test_faults_of_channels_in_a_file(tmp_path: Path) -> None:
    slack(identifier="hook")
    content = {
        "signers": [SIGNER],
        "notifications": [
            {**MAIL, "url": "mailto:nobody"},
            {**MAIL, "id": "mail-2", "url": "https://example.com/"},
            {**CHAT, "signing_key": "key"},
            {"id": "hook", "type": "webhook", "url": "https://example.com/"},
            {**MAIL, "id": "mail-3"},
        ],
        "relayers": [SPARSE | {"notification_id": "mail-3"}],
    }
    assert faults(content, tmp_path) == [
        "notifications[0].url: Enter a valid email address.",
        "notifications[1].url: mailto: and e-mail addresses are required",
        "notifications[2].signing_key: only requests to webhooks are signed",
        "notifications[3].type: the type of a notification cannot change, and this one is slack",
        "relayers[0].notification_id: there is no webhook with this id in the file or in the service",
    ]
