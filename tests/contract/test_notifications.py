"""Sections 2.3, 4.3 and 7: updating a notification."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from threading import Barrier
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from notifications.models import Notification
from tests.api import Answer, Api, WireApi
from tests.concurrency import PATIENCE_SECONDS
from tests.conftest import Log
from tests.contract import bodies, raw

PATH = "/api/v1/notifications/notification-1"
URL = "https://example.com/hooks"
KEY = "the first key"
NOT_FOUND = "Notification not found"
NOT_A_URL = "url: an absolute http or https URL is required"
UNPRINTED = "url: spaces, backslashes and control characters are not allowed in a URL"
MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


def create(identifier: str = "notification-1", *, url: str = URL, signing_key: str | None = KEY) -> Notification:
    return Notification.objects.create(identifier=identifier, url=url, signing_key=signing_key)


def shown(*, identifier: str = "notification-1", url: str = URL, has_signing_key: bool = True) -> dict[str, Any]:
    """The whole body of an answer."""
    return bodies.success({"id": identifier, "type": "webhook", "url": url, "has_signing_key": has_signing_key})


def stored() -> tuple[str, str, str | None]:
    notification = Notification.objects.get()
    return notification.type, notification.url, notification.signing_key


def stored_key_text() -> str | None:
    """The column of the signing key as the database has it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT signing_key FROM notifications_notification")
        text: str | None = cursor.fetchone()[0]
        return text


def test_every_field_is_changed_at_once(api: Api) -> None:
    create(signing_key=None)
    body = {"type": "webhook", "url": "http://hooks.example.org:8080/a?b=c", "signing_key": "a key"}
    answer = api.patch(PATH, body)
    assert (answer.status, answer.body) == (200, shown(url="http://hooks.example.org:8080/a?b=c"))
    assert answer.headers["content-type"] == "application/json"
    assert stored() == ("webhook", "http://hooks.example.org:8080/a?b=c", "a key")


def test_an_empty_object_changes_nothing_and_is_answered_with_the_notification(api: Api) -> None:
    create()
    answer = api.patch(PATH, {})
    assert (answer.status, answer.body) == (200, shown())
    assert stored() == ("webhook", URL, KEY)


def test_the_url_alone_leaves_the_key(api: Api) -> None:
    create()
    answer = api.patch(PATH, {"url": "https://example.org/"})
    assert (answer.status, answer.body) == (200, shown(url="https://example.org/"))
    assert stored() == ("webhook", "https://example.org/", KEY)


def test_the_type_alone_changes_nothing(api: Api) -> None:
    create()
    answer = api.patch(PATH, {"type": "webhook"})
    assert (answer.status, answer.body) == (200, shown())
    assert stored() == ("webhook", URL, KEY)


@pytest.mark.parametrize("key", [KEY, None])
def test_a_signing_key_of_null_is_unchanged(api: Api, key: str | None) -> None:
    create(signing_key=key)
    before = stored_key_text()
    answer = api.patch(PATH, {"signing_key": None})
    assert (answer.status, answer.body) == (200, shown(has_signing_key=key is not None))
    assert stored_key_text() == before


def test_other_fields_are_changed_beside_a_signing_key_of_null(api: Api) -> None:
    create()
    answer = api.patch(PATH, {"signing_key": None, "url": "https://example.org/"})
    assert (answer.status, answer.body) == (200, shown(url="https://example.org/"))
    assert stored() == ("webhook", "https://example.org/", KEY)


@pytest.mark.parametrize("key", [KEY, None])
def test_an_empty_signing_key_removes_it(api: Api, key: str | None) -> None:
    create(signing_key=key)
    answer = api.patch(PATH, {"signing_key": ""})
    assert (answer.status, answer.body) == (200, shown(has_signing_key=False))
    assert stored() == ("webhook", URL, None)
    assert stored_key_text() is None


@pytest.mark.parametrize(
    "key",
    [
        "k",
        " ",
        "  padded\t",
        "\n",
        "null",
        "0",
        "caf\u00e9",
        "cafe\u0301",
        "\U0001f511 \u9375",
        "\u0000",
        "a\u0000b",
        "\u2028\ufeff\u202e",
        'quotes " and \\ and {}',
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "x" * 10_000,
        "\U0001f511" * 10_000,
    ],
    ids=lambda key: ascii(key[:20]),
)
@pytest.mark.parametrize("before", [KEY, None])
def test_any_other_signing_key_is_set_to_exactly_that(api: Api, before: str | None, key: str) -> None:
    create(signing_key=before)
    answer = api.patch(PATH, {"signing_key": key})
    assert (answer.status, answer.body) == (200, shown())
    assert stored() == ("webhook", URL, key)


def test_a_signing_key_that_cannot_sign_is_set_with_a_note(api: Api) -> None:
    create()
    answer = api.patch(PATH, {"signing_key": "whsec_not base64"})
    note = "signing_key: The signing key starts with whsec_ but is not valid base64 after it."
    assert (answer.status, answer.body) == (200, bodies.success(shown()["data"], logs=[note]))
    assert stored() == ("webhook", URL, "whsec_not base64")


def test_a_key_that_was_removed_can_be_set_again(api: Api) -> None:
    create()
    has_key = [api.patch(PATH, {"signing_key": key}).body["data"]["has_signing_key"] for key in ("", "second", "")]
    assert has_key == [False, True, False]


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "http://example.com/",
        "HTTPS://Example.COM/Path",
        "https://example.com:443/",
        "https://example.com:1024/",
        "https://example.com:65535/",
        "https://example.com/@user:pass",
        "https://example.com/a%20b/../c?d=e&d=f#g",
        "https://b\u00fccher.example/\u00fc?\u9375",
        "https://example.com./",
        "https://1.1.1.1/",
        "https://[2606:4700:4700::1111]/",
        "http://127.0.0.1:9000/open-in-the-local-profile",
        "https://example.com/" + "x" * 10_000,
    ],
    ids=lambda url: ascii(url[:60]),
)
def test_a_url_is_kept_to_the_byte(api: Api, url: str) -> None:
    create()
    answer = api.patch(PATH, {"url": url})
    assert (answer.status, answer.body) == (200, shown(url=url))
    assert stored() == ("webhook", url, KEY)


@pytest.mark.parametrize(
    ("url", "faults"),
    [
        ("", ["url: an empty string is not allowed here"]),
        (None, ["url: null is not allowed here"]),
        (1, ["url: a string is required"]),
        (True, ["url: a string is required"]),
        ([URL], ["url: a string is required"]),
        ({}, ["url: a string is required"]),
        ("example.com", [NOT_A_URL]),
        ("//example.com/", [NOT_A_URL]),
        ("/hooks", [NOT_A_URL]),
        ("http:", [NOT_A_URL]),
        ("http://", [NOT_A_URL]),
        ("http:///hooks", [NOT_A_URL]),
        ("http:example.com", [NOT_A_URL]),
        ("http://?x", [NOT_A_URL]),
        ("http://user@/", [NOT_A_URL]),
        ("ftp://example.com/", [NOT_A_URL]),
        ("file:///etc/passwd", [NOT_A_URL]),
        ("javascript:alert(1)", [NOT_A_URL]),
        ("httpx://example.com/", [NOT_A_URL]),
        ("http://[::1", [NOT_A_URL]),
        ("http://[not an address]/", [UNPRINTED]),
        ("http://a..b/", [NOT_A_URL]),
        (f"http://{'a' * 64}.example/", [NOT_A_URL]),
        ("http://example.com:0/", [NOT_A_URL]),
        ("http://example.com:65536/", [NOT_A_URL]),
        ("http://example.com:port/", [NOT_A_URL]),
        (" https://example.com/", [UNPRINTED]),
        ("https://example.com/ ", [UNPRINTED]),
        ("https://example.com/\n", [UNPRINTED]),
        ("https://example.com\\@example.org/", [UNPRINTED]),
        ("https://example.com/\u00a0", [UNPRINTED]),
        ("https://example.com/\u0000", [UNPRINTED, "url: Null characters are not allowed."]),
        ("https://user:pass@example.com/", ["url: a user name or a password is not allowed in this URL"]),
        ("https://user@example.com/", ["url: a user name or a password is not allowed in this URL"]),
        ("http://example.com:22/", ["url: the port must be 80, 443 or at least 1024"]),
        ("http://10.0.0.1/", ["url: private, local and reserved addresses are not allowed"]),
        ("http://169.254.169.254/", ["url: private, local and reserved addresses are not allowed"]),
        ("http://[fd00::1]/", ["url: private, local and reserved addresses are not allowed"]),
    ],
)
def test_another_url_is_a_bad_request_and_changes_nothing(api: Api, url: Any, faults: list[str]) -> None:
    create()
    answer = api.patch(PATH, {"url": url, "signing_key": "another"})
    assert (answer.status, answer.body) == (400, bodies.bad_request(*faults))
    assert stored() == ("webhook", URL, KEY)


@pytest.mark.parametrize("value", ["", "Webhook", "email", " webhook", 1, True, ["webhook"], {}])
def test_another_type_is_a_bad_request_and_changes_nothing(api: Api, value: Any) -> None:
    create()
    answer = api.patch(PATH, {"type": value, "url": "https://example.org/", "signing_key": ""})
    assert (answer.status, answer.body) == (400, bodies.bad_request("type: must be one of: webhook"))
    assert stored() == ("webhook", URL, KEY)


def test_a_type_of_null_is_a_bad_request(api: Api) -> None:
    create()
    answer = api.patch(PATH, {"type": None})
    assert (answer.status, answer.body) == (400, bodies.bad_request("type: null is not allowed here"))


@pytest.mark.parametrize("value", [1, 0, 1.5, True, False, ["key"], [], {"key": "key"}, {}])
def test_a_signing_key_that_is_no_string_is_a_bad_request(api: Api, value: Any) -> None:
    create()
    answer = api.patch(PATH, {"signing_key": value, "url": "https://example.org/"})
    assert (answer.status, answer.body) == (400, bodies.bad_request("signing_key: a string is required"))
    assert stored() == ("webhook", URL, KEY)


@pytest.mark.parametrize(
    ("name", "fault"), [("id", "this field cannot be changed"), ("has_signing_key", "this field is read-only")]
)
def test_a_field_that_cannot_be_sent_is_a_bad_request_that_says_why(api: Api, name: str, fault: str) -> None:
    create()
    answer = api.patch(PATH, {name: "x", "url": "https://example.org/", "signing_key": ""})
    assert (answer.status, answer.body) == (400, bodies.bad_request(f"{name}: {fault}"))
    assert stored() == ("webhook", URL, KEY)


@pytest.mark.parametrize("name", ["URL", "identifier", "gone_at", "name", "signingKey", ""])
def test_a_field_that_is_not_known_is_a_bad_request_and_changes_nothing(api: Api, name: str) -> None:
    create()
    answer = api.patch(PATH, {name: "x", "url": "https://example.org/", "signing_key": ""})
    fault = f"{name}: unknown field" if name else "unknown field"
    assert (answer.status, answer.body) == (400, bodies.bad_request(fault))
    assert stored() == ("webhook", URL, KEY)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", "the body is empty"),
        (b" ", "the body is not valid JSON"),
        (b"{", "the body is not valid JSON"),
        (b"null", "an object is required"),
        (b"[]", "an object is required"),
        (b'"webhook"', "an object is required"),
        (b'{"url":"https://a.example","url":"https://b.example"}', "duplicate key"),
        (b'{"signing_key":"\\ud800"}', "the body is not valid UTF-8 text"),
        (b'{"signing_key":"\xff"}', "the body is not valid UTF-8 text"),
    ],
)
def test_a_body_that_is_no_json_object_is_a_bad_request(api: Api, body: bytes, fault: str) -> None:
    create()
    answer = api.patch(PATH, raw=body)
    assert (answer.status, answer.body) == (400, bodies.bad_request(fault))
    assert stored() == ("webhook", URL, KEY)


def test_a_request_without_a_body_is_a_bad_request(api: Api) -> None:
    create()
    answer = api.patch(PATH)
    assert (answer.status, answer.body) == (400, bodies.bad_request("the body is empty"))


def test_a_body_may_be_called_a_merge_patch(api: Api) -> None:
    create()
    answer = api.patch(PATH, raw=b'{"signing_key":""}', headers={"Content-Type": "application/merge-patch+json"})
    assert (answer.status, stored()) == (200, ("webhook", URL, None))


@pytest.mark.parametrize("content_type", ["application/json-patch+json", "text/plain"])
def test_another_content_type_is_a_bad_request(api: Api, content_type: str) -> None:
    create()
    answer = api.patch(PATH, raw=b'{"signing_key":""}', headers={"Content-Type": content_type})
    assert (answer.status, answer.body) == (400, bodies.bad_request("the content type must be application/json"))
    assert stored() == ("webhook", URL, KEY)


@pytest.mark.parametrize("body", [{}, {"url": "https://example.org/"}, {"signing_key": None}, {"signing_key": ""}])
def test_an_unknown_id_is_not_found(api: Api, body: dict[str, Any]) -> None:
    create()
    answer = api.patch("/api/v1/notifications/notification-2", body)
    assert (answer.status, answer.body) == (404, bodies.failure(NOT_FOUND))
    assert answer.headers["content-type"] == "application/json"
    assert stored() == ("webhook", URL, KEY)


@pytest.mark.parametrize(
    ("body", "fault"), [(b"", "the body is empty"), (b'{"type":1}', "type: must be one of: webhook")]
)
def test_a_bad_body_comes_before_an_unknown_id(api: Api, body: bytes, fault: str) -> None:
    answer = api.patch("/api/v1/notifications/notification-2", raw=body)
    assert (answer.status, answer.body) == (400, bodies.bad_request(fault))


@pytest.mark.parametrize(
    "identifier", ["NOTIFICATION-1", "notification-1 ", " notification-1", "notification-1\u0301"]
)
def test_an_id_is_compared_to_the_byte(api: Api, identifier: str) -> None:
    create()
    answer = api.patch(f"/api/v1/notifications/{quote(identifier)}", {})
    assert (answer.status, answer.body) == (404, bodies.failure(NOT_FOUND))


ODD_IDS = [
    "a/b",
    "a//b",
    "/a",
    "a/",
    "/",
    "//",
    ".",
    "..",
    "../signers",
    "a.json",
    "%",
    "%2F",
    "100%25",
    "a b",
    " ",
    "a+b",
    "a?b=c",
    "a#b",
    "a;b=c",
    "a&b",
    "a\\b",
    "caf\u00e9",
    "cafe\u0301",
    "\u9375\U0001f511",
    "'\";--",
    "{notification_id}",
    "line\nbreak",
    "\n",
    "\r\n",
    "\u0085",
    "\u007f",
    "x" * 255,
    "\U0001f511" * 255,
]


@pytest.mark.parametrize("identifier", ODD_IDS, ids=lambda text: ascii(text[:20]))
def test_any_id_works(api: Api, identifier: str) -> None:
    create(identifier)
    create("another")
    answer = api.patch(f"/api/v1/notifications/{quote(identifier, safe='')}", {"url": "https://example.org/"})
    assert (answer.status, answer.body) == (200, shown(identifier=identifier, url="https://example.org/"))
    assert Notification.objects.get(identifier="another").url == URL


@pytest.mark.parametrize("identifier", ["a/b", "a//b", "/a", ".", "..", "../signers", "a.json", "%", "100%", "a+b"])
def test_an_id_that_is_written_without_an_escape_works(api: Api, identifier: str) -> None:
    create(identifier)
    answer = api.patch(f"/api/v1/notifications/{identifier}", raw=b"{}")
    assert (answer.status, answer.body) == (200, shown(identifier=identifier))


@pytest.mark.parametrize(
    "path",
    [
        *(quote(identifier, safe="") for identifier in ODD_IDS),
        "%00",
        "a%00b",
        "a%00/",
        "%ff%fe",
        "%C0%AF",
        "%ED%A0%80",
        "%zz",
        "%2",
        "x" * 256,
        "x" * 8000,
        "%F0%9F%94%91" * 256,
        "notification-1/rpc",
        "notification-1//",
        "//notification-1",
        "./notification-1",
    ],
    ids=lambda path: path[:20],
)
def test_no_path_is_too_odd_to_be_not_found(api: Api, path: str) -> None:
    create()
    answer = api.patch(f"/api/v1/notifications/{path}", raw=b"{}")
    assert (answer.status, answer.body) == (404, bodies.failure(NOT_FOUND))
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("slash", ["/", "%2F"])
def test_a_trailing_slash_is_answered_and_not_redirected(api: Api, slash: str) -> None:
    create()
    answer = api.patch(PATH + slash, raw=b'{"url":"https://example.org/"}')
    assert (answer.status, answer.body) == (200, shown(url="https://example.org/"))


def test_an_id_that_ends_with_a_slash_comes_before_one_that_does_not(api: Api) -> None:
    create("a")
    create("a/")
    answer = api.patch("/api/v1/notifications/a/", {"url": "https://example.org/"})
    assert (answer.status, answer.body) == (200, shown(identifier="a/", url="https://example.org/"))
    assert Notification.objects.get(identifier="a").url == URL
    answer = api.patch("/api/v1/notifications/a", {})
    assert (answer.status, answer.body) == (200, shown(identifier="a"))


def test_a_query_changes_nothing(api: Api) -> None:
    create()
    answer = api.patch(f"{PATH}?signing_key=&url=x", {})
    assert (answer.status, answer.body) == (200, shown())


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_not_offered(api: Api, method: str) -> None:
    create()
    answer = api(method, PATH, {} if method in {"POST", "PUT"} else None)
    assert (answer.status, answer.body) == (405, bodies.failure("Method Not Allowed"))
    assert answer.headers["allow"] == "PATCH"


def test_a_head_is_not_offered(api: Api) -> None:
    create()
    answer = api("HEAD", PATH)
    assert (answer.status, answer.text, answer.headers["allow"]) == (405, b"", "PATCH")


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/api/v1/notifications", "/api/v1/notifications/"])
def test_a_list_of_notifications_is_not_offered(api: Api, method: str, path: str) -> None:
    answer = api(method, path, {})
    assert (answer.status, answer.body) == (404, bodies.failure("Not Found"))


@pytest.mark.parametrize("path", [PATH, "/api/v1/notifications/unknown"])
@pytest.mark.parametrize("body", [b'{"signing_key":""}', b"{", b""])
def test_a_token_is_required_before_anything_else_is_disclosed(api: Api, path: str, body: bytes) -> None:
    create()
    answer = api.with_token("").patch(path, raw=body)
    assert (answer.status, answer.body) == (401, bodies.failure("Unauthorized"))
    assert answer.headers["www-authenticate"] == "Bearer"
    assert stored() == ("webhook", URL, KEY)


def test_the_signing_key_is_stored_encrypted(api: Api) -> None:
    create(signing_key=None)
    api.patch(PATH, {"signing_key": "a key to look for"})
    first = stored_key_text()
    assert first is not None
    assert "look for" not in first
    for key in ("another key", "a key to look for"):
        api.patch(PATH, {"signing_key": key})
    assert stored_key_text() not in {first, None}


def test_no_answer_and_no_line_of_the_log_has_the_signing_key_or_the_user_info(api: Api, log: Log) -> None:
    create()
    answers = [
        api.patch(PATH, body)
        for body in (
            {"signing_key": "key-SECRET"},
            {"signing_key": ["key-SECRET"]},
            {"signing_key": "key-SECRET", "type": "email"},
            {"signing_key": "key-SECRET", "unknown": "key-SECRET"},
            {"whsec_SECRET": "key-SECRET"},
            {"url": "ftp://user:pass-SECRET@example.com/"},
            {"url": "https://user:pass-SECRET@example.com:22/"},
            {"url": "https://user:pass-SECRET@10.0.0.1/"},
            {"url": "https://user:pass-SECRET@example.com/ "},
            {"url": ["https://user:pass-SECRET@example.com/"]},
            {"type": "https://user:pass-SECRET@example.com/"},
            {"https://user:pass-SECRET@example.com/": 1},
        )
    ]
    assert [answer.status for answer in answers] == [200] + [400] * 11
    assert [answer.text for answer in answers if b"SECRET" in answer.text] == []
    assert "PATCH" in log.text
    assert "SECRET" not in log.text


def test_a_password_that_an_earlier_release_accepted_in_a_url_is_not_shown(api: Api) -> None:
    create()
    Notification.objects.update(url="https://user:pass-SECRET@example.com/hook?a=b")
    answer = api.patch(PATH, {})
    assert (answer.status, answer.body["data"]["url"]) == (200, "https://example.com/hook?a=b")
    assert Notification.objects.get().url == "https://user:pass-SECRET@example.com/hook?a=b"


def test_another_url_forgets_what_was_known_of_the_old_one(api: Api) -> None:
    create()
    Notification.objects.update(failing_since=MOMENT, gone_at=MOMENT)
    api.patch(PATH, {"url": URL, "signing_key": "another"})
    assert Notification.objects.values_list("failing_since", "gone_at").get() == (MOMENT, MOMENT)
    api.patch(PATH, {"url": "https://example.org/"})
    assert Notification.objects.values_list("failing_since", "gone_at").get() == (None, None)


def at_once(*calls: Callable[[], Answer]) -> list[Answer]:
    """Make the calls as nearly at the same time as threads can."""
    start = Barrier(len(calls))

    def run(call: Callable[[], Answer]) -> Answer:
        start.wait(PATIENCE_SECONDS)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_two_patches_at_once_lose_no_field(wire: WireApi) -> None:
    create()
    for number in range(20):
        url, key = f"https://example.com/{number}", f"key {number}"
        answers = at_once(partial(wire.patch, PATH, {"url": url}), partial(wire.patch, PATH, {"signing_key": key}))
        assert [answer.status for answer in answers] == [200, 200]
        assert answers[0].body == shown(url=url)
        assert stored() == ("webhook", url, key)


def test_of_many_patches_at_once_each_is_whole(wire: WireApi) -> None:
    create()
    changes = [{"url": f"https://example.com/{number}", "signing_key": f"key {number}"} for number in range(20)]
    answers = at_once(*(partial(wire.patch, PATH, change) for change in changes))
    assert [(answer.status, answer.body) for answer in answers] == [
        (200, shown(url=change["url"])) for change in changes
    ]
    _, url, key = stored()
    assert {"url": url, "signing_key": key} in changes


def test_a_patch_waits_for_a_change_that_is_under_way(wire: WireApi) -> None:
    """Without a lock it would find the URL that it is to set, and leave it to the other change."""
    create()
    # The first use of a token is a write of its own, which would wait as well.
    wire.patch(PATH, {})
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            Notification.objects.select_for_update(no_key=True).get()
            Notification.objects.update(url="https://example.org/")
            answer = pool.submit(wire.patch, PATH, {"url": URL})
            time.sleep(0.5)
            assert not answer.done()
        assert (answer.result().status, answer.result().body) == (200, shown())
    assert stored() == ("webhook", URL, KEY)


def test_a_body_that_comes_slowly_holds_no_lock(wire: WireApi) -> None:
    create()
    headers = raw.bearer(wire.token) + b"Content-Type: application/json\r\nContent-Length: 100\r\n"
    with socket.create_connection(("127.0.0.1", wire.port)) as slow:
        slow.sendall(raw.request(b"PATCH", PATH.encode(), headers) + b'{"url":')
        time.sleep(0.3)
        answer = wire.patch(PATH, {"url": "https://example.org/"})
        assert (answer.status, answer.body) == (200, shown(url="https://example.org/"))


@pytest.mark.parametrize(
    ("path", "body", "statements"),
    [
        (PATH, "{}", ["BEGIN", "SELECT", "COMMIT"]),
        (PATH, '{"type":"webhook","signing_key":null}', ["BEGIN", "SELECT", "COMMIT"]),
        (PATH, f'{{"url":"{URL}"}}', ["BEGIN", "SELECT", "COMMIT"]),
        (PATH, '{"url":"https://example.org/"}', ["BEGIN", "SELECT", "UPDATE", "INSERT", "COMMIT"]),
        (PATH, '{"signing_key":""}', ["BEGIN", "SELECT", "UPDATE", "INSERT", "COMMIT"]),
        (PATH, '{"url":"https://example.org/","signing_key":"k"}', ["BEGIN", "SELECT", "UPDATE", "INSERT", "COMMIT"]),
        (PATH, '{"url":1}', []),
        ("/api/v1/notifications/unknown", "{}", ["BEGIN", "SELECT", "ROLLBACK"]),
        ("/api/v1/notifications/%00", "{}", ["BEGIN", "ROLLBACK"]),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_a_patch_makes_as_many_statements_as_it_needs(token: str, path: str, body: str, statements: list[str]) -> None:
    create()
    client = Client(headers={"Authorization": f"Bearer {token}"})
    # A token that was verified a moment ago costs nothing.
    client.get("/api/v1/items")
    with CaptureQueriesContext(connection) as captured:
        client.patch(path, body, content_type="application/json")
    assert [query["sql"].split()[0] for query in captured] == statements


@pytest.mark.django_db(transaction=True)
def test_only_what_changes_is_written(token: str) -> None:
    create()
    client = Client(headers={"Authorization": f"Bearer {token}"})
    client.get("/api/v1/items")
    with CaptureQueriesContext(connection) as captured:
        client.patch(PATH, '{"signing_key":""}', content_type="application/json")
    update = next(query["sql"] for query in captured if query["sql"].startswith("UPDATE"))
    assert update.partition(" WHERE ")[0] == 'UPDATE "notifications_notification" SET "signing_key" = NULL'
