"""One attempt against a real receiver: what is sent, and what keeps it from being sent."""

from __future__ import annotations

import ipaddress
import logging
import socket
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from notifications.delivery import attempts, signing
from notifications.models import Delivery
from relayer_service.storage.encryption import Sealed
from tests.concurrency import PATIENCE_SECONDS
from tests.notifications.factories import BODY, attempt, make_delivery, send
from tests.notifications.receivers import answer, in_turn, receiver
from tests.servers import free_port

STANDARD_KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
LATE = "No response in time."
UNKNOWN = "Internal error. See the worker's log."
DOES_NOT_OPEN = (
    "A value encrypted with the key '1' cannot be decrypted: "
    "the key has a different value, or the ciphertext belongs to another row."
)


@pytest.fixture(autouse=True)
def opened(settings: Settings) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    settings.WEBHOOK_TIMEOUT_SECONDS = PATIENCE_SECONDS


def test_the_request_is_exactly_this() -> None:
    with receiver() as server:
        outcome = attempt(f"{server.url}/a%2Fb?token=x%20y&z=%2B", body=BODY)
    (request,) = server.requests
    assert (request.path, request.body) == ("/hook/a%2Fb?token=x%20y&z=%2B", BODY)
    assert request.headers == {
        "host": f"127.0.0.1:{server.port}",
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-length": str(len(BODY)),
        "content-type": "application/json",
        "user-agent": "Relayer-Management-Service",
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(outcome.started_at.timestamp())),
    }


@pytest.mark.parametrize("key", ["k", " a key ", "schl\u00fcssel \U0001f511", STANDARD_KEY, STANDARD_KEY.rstrip("=")])
def test_a_signed_request_is_verified_by_its_receiver(key: str) -> None:
    with receiver(key=key) as server:
        outcome = attempt(server.url, signing_key=key)
    assert (outcome.response_code, server.forged) == (200, [])


@pytest.mark.parametrize(
    ("signing_key", "said"), [("another key", "No matching signature found"), (None, "Missing required headers")]
)
def test_a_receiver_with_another_key_refuses_the_request(signing_key: str | None, said: str) -> None:
    with receiver(key="a key") as server:
        outcome = attempt(server.url, signing_key=signing_key)
    assert (outcome.response_code, server.forged) == (401, [said])


def test_each_attempt_is_signed_afresh_under_the_same_id(monkeypatch: pytest.MonkeyPatch) -> None:
    delivery, now = make_delivery(signing_key="a key"), datetime.now(tz=UTC)
    with receiver(key="a key") as server:
        delivery.notification.url = server.url
        for moment in (now - timedelta(seconds=60), now):
            monkeypatch.setattr(timezone, "now", lambda moment=moment: moment)
            send(delivery)
    first, second = server.requests
    assert (first.webhook_id, first.body) == (second.webhook_id, second.body)
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 60
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]
    assert server.forged == []


def test_a_connection_that_is_not_accepted_ends_in_time(settings: Settings) -> None:
    settings.WEBHOOK_TIMEOUT_SECONDS = 1
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        with socket.create_connection(address), socket.socket() as second:
            # The queue is full now: what comes next is not answered at all.
            second.setblocking(False)
            second.connect_ex(address)
            outcome = attempt(f"http://127.0.0.1:{address[1]}/")
    assert (outcome.response_code, outcome.error) == (None, LATE)
    assert outcome.milliseconds < 20_000


def test_a_port_where_nobody_listens_is_a_failure() -> None:
    outcome = attempt(f"http://127.0.0.1:{free_port()}/")
    assert (outcome.response_code, outcome.error) == (None, "Connection failed.")


def test_a_name_that_is_unknown_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known: ns1.internal")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    outcome = attempt("http://nowhere.example/")
    assert (outcome.response_code, outcome.error) == (None, "The host name cannot be resolved.")


def test_cookies_are_not_kept_between_attempts() -> None:
    with receiver(answer(200, headers={"Set-Cookie": "session=1; Path=/"})) as server:
        send(*[make_delivery(server.url) for _ in range(3)])
    assert ["cookie" in request.headers for request in server.requests] == [False] * 3


def test_a_connection_is_kept_for_the_next_attempt() -> None:
    with receiver() as server:
        send(*[make_delivery(server.url) for _ in range(3)])
    assert (len(server.requests), server.connections) == (3, 1)


def test_a_long_answer_does_not_spoil_the_next_attempt() -> None:
    with receiver(in_turn(answer(200, b"a" * 1_000_000), answer(200, b"second"))) as server:
        outcomes = send(make_delivery(server.url), make_delivery(server.url))
    assert [outcome.answer for outcome in outcomes] == ["a" * 2048, "second"]


def test_the_user_and_password_of_a_url_are_sent_as_a_header() -> None:
    with receiver() as server:
        attempt(f"http://user:pass%20word@127.0.0.1:{server.port}/")
    assert server.requests[0].headers["authorization"] == "Basic dXNlcjpwYXNzIHdvcmQ="


def test_nothing_is_sent_unsigned_when_the_key_cannot_be_used() -> None:
    with receiver() as server:
        outcome = attempt(server.url, signing_key="whsec_not base64")
    assert outcome.error == "The signing key starts with whsec_ but is not valid base64 after it."
    assert server.connections == 0


def unreadable(url: str, sealed: str) -> Delivery:
    delivery = make_delivery(url)
    delivery.notification.signing_key = Sealed(sealed)
    return delivery


@pytest.mark.parametrize(
    ("sealed", "said"),
    [
        ("old:AAAA", "The encryption key 'old' is missing from ENCRYPTION_KEYS."),
        ("1:AAAA", DOES_NOT_OPEN),
    ],
)
def test_nothing_is_sent_unsigned_when_the_key_cannot_be_read(sealed: str, said: str) -> None:
    with receiver() as server:
        (outcome,) = send(unreadable(server.url, sealed))
    assert (outcome.response_code, outcome.error) == (None, said)
    assert server.connections == 0


def test_the_error_fits_its_column_whatever_stands_in_the_database() -> None:
    (outcome,) = send(unreadable("http://127.0.0.1:8080/", "k" * 500))
    assert len(outcome.error) == Delivery._meta.get_field("error").max_length == attempts.MAX_ERROR_LENGTH


def test_a_fault_of_our_own_is_logged_and_tried_again_like_any_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr(signing, "headers", fail)
    with receiver() as server:
        outcome = attempt(server.url, signing_key="a secret key")
    assert (outcome.succeeded, outcome.response_code, outcome.error) == (False, None, UNKNOWN)
    name = "notifications.delivery.attempts"
    assert [each for each in caplog.record_tuples if each[0] == name] == [
        (name, logging.ERROR, "Unexpected error in a webhook attempt")
    ]
    assert "a secret key" not in caplog.text
    assert server.connections == 0
