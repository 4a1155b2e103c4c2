"""The request on a delivery's page: its headers as sent, and a curl command that sends it again."""

from __future__ import annotations

import subprocess
import uuid
from html import unescape

import pytest
from django.test import Client

from notifications.console.formatting import curl
from notifications.models import Attempt, Delivery, Notification
from tests.notifications.admin_pages import shown, staff_who_may
from tests.notifications.clock import NOON
from tests.notifications.factories import create_notification, exchange, send
from tests.notifications.receivers import receiver

pytestmark = pytest.mark.django_db

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = """{"type":"relayer.paused","data":{"name":"it's $HOME `id` \\\\ ключ"}}""".encode()
SECRET_URL = "https://hooks.example.com/T0/s3cret"


def page_of(delivery: Delivery) -> str:
    return f"/admin/notifications/delivery/{delivery.pk}/change/"


def create_delivery(notification: Notification, **fields: object) -> Delivery:
    values = {"event": "relayer.paused", "body": BODY, "due_at": NOON, "identifier": "msg_1"} | fields
    return Delivery.objects.create(notification=notification, **values)


def test_the_curl_command_sends_the_request_with_a_valid_signature() -> None:
    with receiver(key=KEY) as target:
        delivery = create_delivery(create_notification(url=target.url, signing_key=KEY))
        run = subprocess.run(["bash", "-c", curl(delivery, with_secrets=True)], capture_output=True, check=True)
    assert run.stdout.startswith(b"HTTP/1.1 200 OK")
    (request,) = target.requests
    assert (request.path, request.webhook_id, request.body, target.forged) == ("/hook", "msg_1", BODY, [])
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"] == "Relayer-Management-Service"


def test_the_page_shows_the_headers_of_the_last_attempt_as_they_were_sent(admin_client: Client) -> None:
    with receiver(key=KEY) as target:
        notification = create_notification(url=target.url, signing_key=KEY)
        create_delivery(notification)
        (claimed,) = exchange(notification, lease=(lease := uuid.uuid4()))
        exchange(notification, *send(claimed), lease=lease)
    # Another key does not change what was sent.
    notification.save(update_fields=notification.set_signing_key("another"))
    headers = unescape(shown(admin_client.get(page_of(claimed)), "headers"))
    sent = target.requests[0].headers
    names = ["Content-Type", "User-Agent", "webhook-id", "webhook-timestamp", "webhook-signature"]
    expected = " ".join(f"{name}: {sent[name.lower()]}" for name in names)
    assert headers == f'<pre class="plain-text">{expected}</pre>'


def test_without_an_attempt_there_are_no_headers_and_without_a_key_no_signature(
    admin_client: Client,
) -> None:
    delivery = create_delivery(create_notification(signing_key="whsec_not base64"))
    assert shown(admin_client.get(page_of(delivery)), "headers") == "Not sent yet."
    assert "webhook-signature" not in curl(delivery, with_secrets=True)


def test_staff_who_may_only_view_see_no_url_and_no_signature(client: Client) -> None:
    viewer = staff_who_may(client, "view_delivery")
    delivery = create_delivery(create_notification(url=SECRET_URL, signing_key=KEY))
    attempt = {"started_at": NOON, "milliseconds": 1, "signature": "v1,c2lnbmF0dXJl"}
    Attempt.objects.create(delivery=delivery, **attempt)
    page = viewer.get(page_of(delivery))
    assert "webhook-signature: ***" in shown(page, "masked_headers")
    text = page.content.decode()
    assert "https://hooks.example.com/***" in text
    assert "s3cret" not in text
    assert "c2lnbmF0dXJl" not in text
    assert "v1," not in text
