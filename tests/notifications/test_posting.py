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

from notifications.delivery import posting, signing
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


@pytest.mark.parametrize("key", [" a key ", "schl\u00fcssel \U0001f511", STANDARD_KEY, STANDARD_KEY.rstrip("=")])
def test_each_attempt_is_signed_afresh_under_the_same_id_and_verified(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    delivery, now = make_delivery(signing_key=key), datetime.now(tz=UTC)
    with receiver(key=key) as server:
        delivery.notification.url = server.url
        for moment in (now - timedelta(seconds=60), now):
            monkeypatch.setattr(timezone, "now", lambda moment=moment: moment)
            assert [each.response_code for each in send(delivery)] == [200]
    first, second = server.requests
    assert (first.webhook_id, first.body) == (second.webhook_id, second.body)
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 60
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


@pytest.mark.parametrize(
    ("signing_key", "said"), [("another key", "No matching signature found"), (None, "Missing required headers")]
)
def test_a_receiver_with_another_key_refuses_the_request(signing_key: str | None, said: str) -> None:
    with receiver(key="a key") as server:
        outcome = attempt(server.url, signing_key=signing_key)
    assert (outcome.response_code, server.forged) == (401, [said])


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


def test_a_port_where_nobody_listens_and_a_name_that_is_unknown_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known: ns1.internal")

    outcome = attempt(f"http://127.0.0.1:{free_port()}/")
    assert (outcome.response_code, outcome.error) == (None, "Connection failed.")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    outcome = attempt("http://nowhere.example/")
    assert (outcome.response_code, outcome.error) == (None, "The host name cannot be resolved.")


def test_a_connection_is_kept_for_the_next_attempt_and_nothing_else() -> None:
    cookie = answer(200, headers={"Set-Cookie": "session=1; Path=/"})
    with receiver(
        in_turn(cookie, answer(200, b"short"), answer(200, b"a" * 1_000_000), answer(200, b"last"))
    ) as server:
        url = f"http://user:pass%20word@127.0.0.1:{server.port}/"
        outcomes = send(*[make_delivery(server.url) for _ in range(2)])
        assert (len(server.requests), server.connections) == (2, 1)
        outcomes += send(*[make_delivery(url) for _ in range(2)])
    assert [outcome.answer for outcome in outcomes] == ["", "short", "a" * 2048, "last"]
    assert ["cookie" in request.headers for request in server.requests] == [False] * 4
    assert [request.headers.get("authorization") for request in server.requests[1:3]] == [
        None,
        "Basic dXNlcjpwYXNzIHdvcmQ=",
    ]


def test_nothing_is_sent_unsigned_when_the_key_cannot_be_read_or_used() -> None:
    with receiver() as server:
        outcomes = send(
            make_delivery(server.url, signing_key="whsec_not base64"),
            unreadable(server.url, "old:AAAA"),
            unreadable(server.url, "1:AAAA"),
            unreadable(server.url, "k" * 500),
        )
    assert [(each.response_code, each.error) for each in outcomes[:3]] == [
        (None, "The signing key starts with whsec_ but is not valid base64 after it."),
        (None, "The encryption key 'old' is missing from ENCRYPTION_KEYS."),
        (None, DOES_NOT_OPEN),
    ]
    # The error fits its column, whatever stands in the database.
    longest = Delivery._meta.get_field("error").max_length
    assert len(outcomes[3].error) == longest == posting.MAX_ERROR_LENGTH
    assert server.connections == 0


def unreadable(url: str, sealed: str) -> Delivery:
    delivery = make_delivery(url)
    delivery.notification.signing_key = Sealed(sealed)
    return delivery


def test_a_fault_of_our_own_is_logged_and_tried_again_like_any_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr(signing, "headers", fail)
    with receiver() as server:
        outcome = attempt(server.url, signing_key="a secret key")
    assert (outcome.succeeded, outcome.response_code, outcome.error) == (False, None, UNKNOWN)
    name = "notifications.delivery.posting"
    assert [each for each in caplog.record_tuples if each[0] == name] == [
        (name, logging.ERROR, "Unexpected error in a webhook attempt")
    ]
    assert "a secret key" not in caplog.text
    assert server.connections == 0
