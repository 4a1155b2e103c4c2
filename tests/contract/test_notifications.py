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

pytestmark = pytest.mark.both_engines

PATH = "/api/v1/notifications/notification-1"
URL = "https://example.com/hooks"
KEY = "the first key"
NOT_A_URL = "an absolute http or https URL is required"
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


def test_what_is_not_sent_is_unchanged(api: Api) -> None:
    create()
    for body, url in (
        ({}, URL),
        ({"type": "webhook"}, URL),
        ({"url": "https://example.org/"}, "https://example.org/"),
    ):
        answer = api.patch(f"{PATH}?signing_key=&url=x", body)
        assert (answer.status, answer.body) == (200, shown(url=url))
        assert stored() == ("webhook", url, KEY)


@pytest.mark.parametrize("key", [KEY, None])
def test_a_signing_key_of_null_is_unchanged(api: Api, key: str | None) -> None:
    create(signing_key=key)
    before = stored_key_text()
    answer = api.patch(PATH, {"signing_key": None, "url": "https://example.org/"})
    assert (answer.status, answer.body) == (200, shown(has_signing_key=key is not None, url="https://example.org/"))
    assert stored_key_text() == before


@pytest.mark.parametrize("key", [KEY, None])
def test_an_empty_signing_key_removes_it(api: Api, key: str | None) -> None:
    create(signing_key=key)
    answer = api.patch(PATH, {"signing_key": ""})
    assert (answer.status, answer.body) == (200, shown(has_signing_key=False))
    assert stored() == ("webhook", URL, None)
    assert stored_key_text() is None


@pytest.mark.parametrize("before", [KEY, None])
def test_any_other_signing_key_is_set_to_exactly_that(api: Api, before: str | None) -> None:
    create(signing_key=before)
    for key in (
        *(
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
        ),
        *("\u2028\ufeff\u202e", 'quotes " and \\ and {}', "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        *("x" * 10_000, "\U0001f511" * 10_000),
    ):
        answer = api.patch(PATH, {"signing_key": key})
        assert (answer.status, answer.body) == (200, shown())
        assert stored() == ("webhook", URL, key)


def test_a_signing_key_that_cannot_sign_is_set_with_a_note(api: Api) -> None:
    create()
    answer = api.patch(PATH, {"signing_key": "whsec_not base64"})
    note = "signing_key: The signing key starts with whsec_ but is not valid base64 after it."
    assert (answer.status, answer.body) == (200, bodies.success(shown()["data"], logs=[note]))
    assert stored() == ("webhook", URL, "whsec_not base64")


def test_a_url_is_kept_to_the_byte(api: Api) -> None:
    create()
    for url in (
        *("https://example.com", "http://example.com/", "HTTPS://Example.COM/Path", "https://example.com:443/"),
        *("https://example.com:1024/", "https://example.com:65535/", "https://example.com/@user:pass"),
        *("https://example.com/a%20b/../c?d=e&d=f#g", "https://b\u00fccher.example/\u00fc?\u9375"),
        *("https://example.com./", "https://1.1.1.1/", "https://[2606:4700:4700::1111]/"),
        *("http://127.0.0.1:9000/open-in-the-local-profile", "https://example.com/" + "x" * 10_000),
    ):
        answer = api.patch(PATH, {"url": url})
        assert (answer.status, answer.body) == (200, shown(url=url))
        assert stored() == ("webhook", url, KEY)


FAULTS: list[tuple[str, list[Any]]] = [
    ("an empty string is not allowed here", [""]),
    ("null is not allowed here", [None]),
    ("a string is required", [1, True, [URL], {}]),
    (
        NOT_A_URL,
        [
            *("example.com", "//example.com/", "/hooks", "http:", "http://", "http:///hooks", "http:example.com"),
            *("http://?x", "http://user@/", "ftp://example.com/", "file:///etc/passwd", "javascript:alert(1)"),
            *("httpx://example.com/", "http://[::1", "http://a..b/", f"http://{'a' * 64}.example/"),
            *("http://example.com:0/", "http://example.com:65536/", "http://example.com:port/"),
        ],
    ),
    (
        "spaces, backslashes and control characters are not allowed in a URL",
        [
            *("http://[not an address]/", " https://example.com/", "https://example.com/ ", "https://example.com/\n"),
            *("https://example.com\\@example.org/", "https://example.com/\u00a0"),
        ],
    ),
    (
        "a user name or a password is not allowed in this URL",
        ["https://user:pass@example.com/", "https://user@example.com/"],
    ),
    ("the port must be 80, 443 or at least 1024", ["http://example.com:22/"]),
    (
        "private, local and reserved addresses are not allowed",
        ["http://10.0.0.1/", "http://169.254.169.254/", "http://[fd00::1]/"],
    ),
]


@pytest.mark.parametrize(("fault", "urls"), FAULTS)
def test_another_url_is_a_bad_request_and_changes_nothing(api: Api, fault: str, urls: list[Any]) -> None:
    create()
    for url in urls:
        answer = api.patch(PATH, {"url": url, "signing_key": "another"})
        assert (url, answer.status, answer.body) == (url, 400, bodies.bad_request(f"url: {fault}"))
    assert stored() == ("webhook", URL, KEY)


def test_other_bad_fields_are_bad_requests_and_change_nothing(api: Api) -> None:
    create()
    cases: list[tuple[str, str, list[Any]]] = [
        ("type", "must be one of: webhook", ["", "Webhook", "email", " webhook", 1, True, ["webhook"], {}]),
        ("type", "null is not allowed here", [None]),
        ("signing_key", "a string is required", [1, 0, 1.5, True, False, ["key"], [], {"key": "key"}, {}]),
        ("id", "this field cannot be changed", ["x"]),
        ("has_signing_key", "this field is read-only", ["x"]),
        *((name, "unknown field", ["x"]) for name in ("URL", "identifier", "gone_at", "name", "signingKey")),
    ]
    for name, fault, values in cases:
        for value in values:
            answer = api.patch(PATH, {"url": "https://example.org/", "signing_key": "", name: value})
            assert (value, answer.status, answer.body) == (value, 400, bodies.bad_request(f"{name}: {fault}"))
    assert api.patch(PATH, {"": "x", "signing_key": ""}).body == bodies.bad_request("unknown field")
    both = bodies.bad_request(f"url: {FAULTS[4][0]}", "url: Null characters are not allowed.")
    assert api.patch(PATH, {"url": "https://example.com/\u0000", "signing_key": ""}).body == both
    assert stored() == ("webhook", URL, KEY)


def test_a_body_that_is_no_json_object_is_a_bad_request(api: Api) -> None:
    create()
    for body, fault in {
        None: "the body is empty",
        b"": "the body is empty",
        b"{": "the body is not valid JSON",
        b"null": "an object is required",
        b"[]": "an object is required",
        b'{"url":"https://a.example","url":"https://b.example"}': "duplicate key",
        b'{"signing_key":"\xff"}': "the body is not valid UTF-8 text",
    }.items():
        # It comes before an unknown ID.
        for path in (PATH, f"{PATH}-2"):
            answer = api.patch(path, raw=body)
            assert (answer.status, answer.body) == (400, bodies.bad_request(fault))
    assert stored() == ("webhook", URL, KEY)


def test_a_body_is_json_or_a_merge_patch(api: Api) -> None:
    create()
    for content_type in ("application/json-patch+json", "text/plain"):
        answer = api.patch(PATH, raw=b'{"signing_key":""}', headers={"Content-Type": content_type})
        assert (answer.status, answer.body) == (400, bodies.bad_request("the content type must be application/json"))
    assert stored() == ("webhook", URL, KEY)
    answer = api.patch(PATH, raw=b'{"signing_key":""}', headers={"Content-Type": "application/merge-patch+json"})
    assert (answer.status, stored()) == (200, ("webhook", URL, None))


def test_an_unknown_id_is_not_found(api: Api) -> None:
    create()
    odd = ("%00", "a%00b", "a%00/", "%ff%fe", "%C0%AF", "%ED%A0%80", "%zz", "%2", "x" * 256, "%F0%9F%94%91" * 256)
    # IDs are compared to the byte.
    others = ("notification-2", "NOTIFICATION-1", "notification-1%20", "%20notification-1", "notification-1%CC%81")
    paths = ("notification-1/rpc", "notification-1//", "//notification-1", "./notification-1", "x" * 8000)
    for path in (*odd, *others, *paths):
        for body in ({}, {"url": "https://example.org/"}, {"signing_key": None}, {"signing_key": ""}):
            answer = api.patch(f"/api/v1/notifications/{path}", body)
            assert (path, answer.status, answer.body) == (path, 404, bodies.failure("Notification not found"))
            assert answer.headers["content-type"] == "application/json"
    assert stored() == ("webhook", URL, KEY)


def test_any_id_works(api: Api) -> None:
    odd = (
        *("a/b", "a//b", "/a", "a/", "/", "//", ".", "..", "../signers", "a.json", "%", "%2F", "100%25", "a b", " "),
        *("a+b", "a?b=c", "a#b", "a;b=c", "a&b", "a\\b", "caf\u00e9", "cafe\u0301", "\u9375\U0001f511", "'\";--"),
        *("{notification_id}", "line\nbreak", "\n", "\r\n", "\u0085", "\u007f", "x" * 255, "\U0001f511" * 255),
    )
    for identifier in odd:
        path = f"/api/v1/notifications/{quote(identifier, safe='')}"
        assert api.patch(path, {}).body == bodies.failure("Notification not found")
        create(identifier)
        answer = api.patch(path, {"url": "https://example.org/"})
        assert (answer.status, answer.body) == (200, shown(identifier=identifier, url="https://example.org/"))
        Notification.objects.all().delete()
    for identifier in ("a/b", "a//b", "/a", ".", "..", "../signers", "a.json", "%", "100%", "a+b"):
        create(identifier)
        answer = api.patch(f"/api/v1/notifications/{identifier}", raw=b"{}")
        assert (answer.status, answer.body) == (200, shown(identifier=identifier))


def test_a_trailing_slash_is_that_of_an_id_or_left_out(api: Api) -> None:
    create("a")
    for slash in ("/", "%2F"):
        answer = api.patch(f"/api/v1/notifications/a{slash}", {})
        assert (answer.status, answer.body) == (200, shown(identifier="a"))
    create("a/")
    answer = api.patch("/api/v1/notifications/a/", {"url": "https://example.org/"})
    assert (answer.status, answer.body) == (200, shown(identifier="a/", url="https://example.org/"))
    answer = api.patch("/api/v1/notifications/a", {})
    assert (answer.status, answer.body) == (200, shown(identifier="a"))


def test_other_methods_and_a_list_are_not_offered(api: Api) -> None:
    create()
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS"):
        answer = api(method, PATH, {} if method in {"POST", "PUT"} else None)
        assert (answer.status, answer.body) == (405, bodies.failure("Method Not Allowed"))
        assert answer.headers["allow"] == "PATCH"
    head = api("HEAD", PATH)
    assert (head.status, head.text, head.headers["allow"]) == (405, b"", "PATCH")
    for method in ("GET", "POST", "PATCH", "DELETE"):
        for path in ("/api/v1/notifications", "/api/v1/notifications/"):
            answer = api(method, path, {})
            assert (answer.status, answer.body) == (404, bodies.failure("Not Found"))


def test_a_token_is_required_before_anything_else_is_disclosed(api: Api) -> None:
    create()
    for path in (PATH, "/api/v1/notifications/unknown"):
        for body in (b'{"signing_key":""}', b"{", b""):
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
        (PATH, f'{{"url":"{URL}"}}', ["BEGIN", "SELECT", "COMMIT"]),
        (PATH, '{"url":"https://example.org/"}', ["BEGIN", "SELECT", "UPDATE", "INSERT", "COMMIT"]),
        (PATH, '{"signing_key":""}', ["BEGIN", "SELECT", "UPDATE", "INSERT", "COMMIT"]),
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
    if "signing_key" in body and "UPDATE" in statements and "url" not in body:
        # Only what changes is written.
        update = captured[2]["sql"].partition(" WHERE ")[0]
        assert update == 'UPDATE "notifications_notification" SET "signing_key" = NULL'
