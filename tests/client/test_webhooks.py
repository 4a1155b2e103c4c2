"""Webhooks as the service signs them are verified, and no others."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from notifications.delivery import signing
from relayer_client import webhooks
from relayer_client.webhooks import Event, InvalidWebhook, verify

KEY = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
AT = datetime(2026, 11, 15, 4, 38, 58, tzinfo=UTC)
NOW = AT.timestamp()
BODY = '{"type":"notification.test","timestamp":"2026-11-15T04:38:58Z","data":{"notification_id":"Zürich"}}'.encode()
EVENT = Event(id="msg_1", type="notification.test", timestamp=AT, data={"notification_id": "Zürich"})


def headers(key: str = KEY, *others: str, body: bytes = BODY) -> dict[str, str]:
    return signing.headers("msg_1", AT, body, key, others)


def test_a_genuine_request_is_its_event() -> None:
    for key in (KEY, KEY.rstrip("="), " correct horse  bättery staple ", "k"):
        assert verify(BODY, headers(key), key, now=NOW) == EVENT
    # Names of headers have any case.
    assert verify(BODY, {name.title(): value for name, value in headers().items()}, KEY, now=NOW) == EVENT


def test_any_key_and_any_signature_suffice() -> None:
    assert verify(BODY, headers("old", "new"), "new", now=NOW) == EVENT
    assert verify(BODY, headers("old"), ["new", "old"], now=NOW) == EVENT


def test_a_changed_header_is_refused() -> None:
    timestamps = (str(int(NOW) + 1), "soon", "²", "9" * 400, "9" * 5000, b"1763181538")
    signature = headers()["webhook-signature"].replace("v1,", "v2,")
    changes: list[dict[Any, Any]] = [
        *({"webhook-timestamp": value} for value in timestamps),
        *({"webhook-signature": value} for value in (["v1,AAAA"], "v1,\ud800", "v1,AAAA", "v1,é", "", signature)),
        *({"webhook-id": value} for value in ("msg_2", "\ud800", "")),
        *({None: "msg_1"}, {7: "msg_1"}),
    ]
    for change in changes:
        with pytest.raises(InvalidWebhook):
            verify(BODY, headers() | change, KEY, now=NOW)


def test_another_body_or_key_is_refused() -> None:
    with pytest.raises(InvalidWebhook):
        verify(BODY + b" ", headers(), KEY, now=NOW)
    with pytest.raises(InvalidWebhook):
        verify(BODY, headers("another"), KEY, now=NOW)
    with pytest.raises(InvalidWebhook):
        verify(BODY, headers(), [], now=NOW)


def test_a_signed_body_that_is_no_event_is_refused() -> None:
    at = b'"timestamp":"2026-11-15T04:38:58Z"'
    events = (b'"type":"a","timestamp":"soon","data":{}', b'"type":"a","timestamp":1763181538,"data":{}')
    others = (b'"type":"a",%s,"data":null' % at, b'"type":7,%s,"data":{}' % at)
    for body in (
        b"",
        b"not JSON",
        b"null",
        b"[]",
        b"[" * 2_000,
        *(b"{%s}" % each for each in (b"", *events, *others)),
    ):
        with pytest.raises(InvalidWebhook):
            verify(body, headers(body=body), KEY, now=NOW)


def test_what_is_no_request_is_refused() -> None:
    in_bytes = {name.encode(): value.encode() for name, value in headers().items()}
    bodies: list[Any] = [BODY.decode(), None]
    given: list[Any] = [in_bytes, list(headers().items()), None]
    for body, signed in (*((body, headers()) for body in bodies), *((BODY, each) for each in given)):
        with pytest.raises(InvalidWebhook):
            verify(body, signed, KEY, now=NOW)


@pytest.mark.parametrize("seconds", [-300, 300])
def test_the_timestamp_may_differ_by_the_tolerance(seconds: int) -> None:
    assert verify(BODY, headers(), KEY, now=NOW + seconds) == EVENT
    with pytest.raises(InvalidWebhook):
        verify(BODY, headers(), KEY, now=NOW + seconds * 1.01)
    assert verify(BODY, headers(), KEY, now=NOW + seconds * 1.01, tolerance=400) == EVENT


@pytest.mark.parametrize("key", ["", "whsec_", "whsec_???"])
def test_an_unusable_key_is_an_error_of_the_program(key: str) -> None:
    with pytest.raises(ValueError, match="signing key"):
        verify(BODY, headers(), key, now=NOW)


def request(method: str = "POST", **changes: str) -> HttpRequest:
    moment = datetime.now(UTC)
    signed = signing.headers("msg_1", moment, BODY, KEY) | changes
    found: HttpRequest = RequestFactory(enforce_csrf_checks=True).generic(
        method, "/hooks", BODY, content_type="application/json", headers=signed
    )
    return found


def test_a_django_view_gets_the_event() -> None:
    @webhooks.receiver(lambda: KEY)
    def view(request: HttpRequest, event: Event, place: str) -> HttpResponse:
        return HttpResponse(f"{event.type} {place}")

    answer: Any = view(request(), place="here")
    assert (answer.status_code, answer.content) == (200, b"notification.test here")
    assert getattr(view, "csrf_exempt", False)
    refusals = [view(request(**{"webhook-id": "msg_2"}), place="here"), view(request("GET"), place="here")]
    assert [each.status_code for each in refusals] == [401, 405]  # type: ignore[union-attr]  # not coroutines


def test_an_asynchronous_django_view_gets_the_event() -> None:
    @webhooks.receiver([KEY])
    async def view(request: HttpRequest, event: Event) -> HttpResponse:
        return HttpResponse(event.type)

    def status(given: HttpRequest) -> int:
        answer: Any = view(given)
        return int(asyncio.run(answer).status_code)

    assert [status(request()), status(request(**{"webhook-id": "msg_2"})), status(request("GET"))] == [200, 401, 405]
