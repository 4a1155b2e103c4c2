"""Section 7: the error envelope, whatever fails."""

from typing import Any

import pytest

from notifications.models import Notification
from tests.api import Api, WireApi
from tests.conftest import Log
from tests.contract import bodies, raw
from tests.sample.models import Item


def test_an_unknown_path_is_not_found_by_any_method(api: Api) -> None:
    for method in ("GET", "POST", "PATCH", "PUT", "DELETE", "OPTIONS", "TRACE", "ODD"):
        answer = api(method, "/api/v1/nothing")
        assert answer.status == 404
        assert answer.headers["content-type"] == "application/json"
        assert answer.body == {"data": None, "message": "Not Found", "success": False}


def test_no_path_is_too_odd_to_be_not_found(server_port: int) -> None:
    items = (b"/item-1", b";x", b"%00", b"%0A", b"%20", b"%252F", b"//")
    odd = (b"%", b"%zz", b"%2", b"%00", b"%ff%fe", b"%C0%AF", b"%ED%A0%80", b"../health", b"%2e%2e/health", b"?page=x")
    for path in (
        *(b"/api", b"/api/", b"/api//", b"/api/v1", b"/api/v2/items", b"/api//v1/items", b"/api/v1//items"),
        *(b"/api/v1/items" + end for end in items),
        *(b"/api/" + end for end in odd),
        *(b"/api/v1/Items", b"/%61pi/v1/nothing", b"/api/\\..\\health", b"/api/v1/%3Cscript%3Ealert(1)%3C/script%3E"),
        b"/api/" + b"a" * 8000,
    ):
        answer = raw.send(server_port, raw.request(b"GET", path))
        assert (path, answer.status, answer.body) == (path, 404, bodies.failure("Not Found"))
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.django_db(transaction=True)
def test_bytes_that_are_no_text_name_no_resource(wire: WireApi) -> None:
    Notification.objects.create(identifier="\ufffd", url="https://example.com/")
    headers = raw.bearer(wire.token) + b"Content-Type: application/json\r\n"
    answer = raw.send(wire.port, raw.request(b"PATCH", b"/api/v1/notifications/%ff", headers, b"{}"))
    assert (answer.status, answer.body) == (404, bodies.failure("Notification not found"))


def test_what_is_not_http_is_refused_by_the_server_itself(server_port: int) -> None:
    heads = (
        *(b"Name\xff: value", b"No colon", b"Name : value", b"Name: a\x00b", b"Name: " + b"x" * 100_000),
        *(b"\r\n".join([b"Name: value"] * 200), b"Content-Length: -1", b"Content-Length: 1, 1"),
        *(b"Content-Length: " + b"9" * 30, b"Transfer-Encoding: nonsense"),
    )
    paths = (b"v1/<script>alert(1)</script>", b"v1/\xff\xfe", b"v1/items with spaces", b"a" * 70_000)
    for data in (
        *(raw.request(b"GET", b"/api/v1/items", head + b"\r\n") for head in heads),
        *(raw.request(b"GET", b"/api/" + path) for path in paths),
        raw.request(b"G\xffT", b"/api/v1/items"),
        *(b"GET /api/v1/items HTTP/9.9\r\n\r\n", b"GET /api/v1/items\r\n\r\n"),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ):
        assert raw.refused_by_server(raw.send(server_port, data)), data[:100]


def test_a_wrong_method_is_not_allowed(api: Api) -> None:
    for method in ("OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND", "ODD", "X-Y"):
        for body in (None, {"id": "item-1", "name": "First"}):
            answer = api(method, "/api/v1/items", body)
            assert (method, answer.status) == (method, 405)
            assert answer.headers["allow"] == "GET, HEAD, POST"
            assert answer.headers["content-type"] == "application/json"
            assert answer.body == {"data": None, "message": "Method Not Allowed", "success": False}


def test_a_method_cannot_be_overridden(api: Api) -> None:
    answer = api.get("/api/v1/items", headers={"X-HTTP-Method-Override": "DELETE"})
    assert (answer.status, answer.body) == (200, bodies.page([], total_items=0))


def test_a_wrong_method_on_the_docs_is_not_allowed(api: Api) -> None:
    for path in ("/api/schema", "/api/docs", "/api/redoc"):
        answer = api("POST", path, {})
        assert (answer.status, answer.body) == (405, bodies.failure("Method Not Allowed"))
        assert answer.headers["allow"] == "GET, HEAD"
    for query in ("version=%00", "lang=%00zz"):
        assert api.get(f"/api/schema?{query}").status < 500


@pytest.mark.django_db(transaction=True)
def test_a_taken_id_conflicts_with_the_message_of_its_view(api: Api) -> None:
    Item.objects.create(identifier="item-1", name="First")
    answer = api.post("/api/v1/items", {"id": "item-1", "name": "Second"})
    assert answer.status == 409
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == {"data": None, "message": "Item with this ID already exists", "success": False}
    assert Item.objects.values_list("identifier", "name").get() == ("item-1", "First")


def test_a_bad_request_lists_its_faults(api: Api) -> None:
    answer = api.post("/api/v1/items", {"name": 1, "colour": "red"})
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == {
        "data": None,
        "message": "Bad Request",
        "success": False,
        "metadata": {
            "logs": [
                {"level": "log", "message": "colour: unknown field"},
                {"level": "log", "message": "id: this field is required"},
                {"level": "log", "message": "name: a string is required"},
            ]
        },
    }


def test_a_bad_request_says_nothing_more_where_details_are_off(api: Api, settings: Any) -> None:
    settings.ERROR_DETAILS = False
    for answer in (
        api.post("/api/v1/items", {"name": 1}),
        api.post("/api/v1/items", raw=b"{"),
        api.get("/api/v1/items?page=x"),
    ):
        assert (answer.status, answer.body) == (400, {"data": None, "message": "Bad Request", "success": False})


def test_a_body_of_many_faults_is_answered_with_the_first_of_them(api: Api) -> None:
    answer = api.post("/api/v1/items", {f"field-{number:03}": 1 for number in range(300)})
    assert (answer.status, answer.body) == (
        400,
        bodies.bad_request(*[f"field-{number:03}: unknown field" for number in range(50)]),
    )


def test_a_host_that_is_not_served_is_a_bad_request(server_port: int) -> None:
    hosts = (b"evil.example.com", b"", b"127.0.0.1:port", b"a b", b"127.0.0.1,evil", b"[::1", b"\xff")
    requests = [raw.request(b"GET", b"/api/v1/items", host=host) for host in hosts]
    for request in (*requests, b"GET /api/v1/items HTTP/1.1\r\n\r\n"):
        answer = raw.send(server_port, request)
        assert (answer.status, answer.body) == (400, bodies.failure("Bad Request"))
        assert answer.headers["content-type"] == "application/json"


def test_the_server_takes_no_client_for_its_proxy(wire: WireApi) -> None:
    headers = (
        raw.bearer(wire.token) + b"SCRIPT_NAME: /elsewhere\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Proto: ftp\r\n"
    )
    answer = raw.send(wire.port, raw.request(b"GET", b"/api/v1/items", headers))
    assert (answer.status, answer.body) == (200, bodies.page([], total_items=0))


@pytest.mark.parametrize(
    ("path", "headers", "cause"),
    [
        ("/api/v1/crash", {}, "RuntimeError: password=***"),
        ("/api/v1/crash-in-renderer", {}, "RuntimeError: the renderer failed"),
        ("/api/v1/items", {"X-Test-Crash": "middleware"}, "RuntimeError: the middleware failed"),
    ],
    ids=["view", "renderer", "middleware"],
)
def test_a_crash_says_nothing_of_its_cause_and_the_log_has_it(
    api: Api, log: Log, path: str, headers: dict[str, str], cause: str
) -> None:
    answer = api.get(path, headers=headers)
    identifier = answer.headers["x-request-id"]
    assert answer.status == 500
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == {"data": None, "message": "Internal Server Error", "success": False}
    errors = [line for line in log.lines(identifier) if line["logger"] == "django.request"]
    assert [(line["level"], line["message"]) for line in errors] == [("ERROR", f"Internal Server Error: {path}")]
    assert errors[0]["traceback"].splitlines()[0] == "Traceback (most recent call last):"
    assert errors[0]["traceback"].splitlines()[-1] == cause
    assert "hunter2" not in log.text
