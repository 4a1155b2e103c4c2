"""The header `Error-Code` of every error, and the table of its values."""

import re
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from relayer_service.api.error_codes import ErrorCode
from relayer_service.background.shares import Busy
from relayer_service.wsgi import application
from tests.api import Api, WireApi
from tests.contract import raw, rpc_calls
from tests.sample.models import Item
from tests.sample.viewsets import CrashView
from tests.servers import PROJECT

ITEMS = "/api/v1/items"
ROW = re.compile(r"^\| `(\w+)` \| ([\d, ]+) \| (.+) \|$", re.MULTILINE)


def code(answer: Any) -> tuple[int, str]:
    return answer.status, answer.headers["error-code"]


def test_the_document_lists_all_codes() -> None:
    listed = ROW.findall((PROJECT / "docs/errors.md").read_text())
    assert listed == [(each.value, ", ".join(map(str, each.statuses)), each.meaning) for each in ErrorCode]


def test_a_bad_body_has_the_code_of_its_first_fault(api: Api) -> None:
    for body, expected in {
        b"": "empty_body",
        b"{": "parse_error",
        b"\xff": "parse_error",
        b'{"a":1,"a":2}': "duplicate",
        b"[" * 100: "body_too_large",
        b"[]": "invalid",
        b'{"id":"a"}': "required",
        b'{"id":"","name":"A"}': "blank",
        b'{"id":"a","name":null}': "null",
        b'{"id":"a","name":1}': "invalid",
        b'{"id":"a","name":"A","colour":"red"}': "unknown_field",
        b'{"id":"%s","name":"A"}' % (b"x" * 256): "max_length",
        # Of several faults, the first.
        b'{"name":1,"colour":"red"}': "unknown_field",
    }.items():
        answer = api.post(ITEMS, raw=body)
        assert (body, *code(answer)) == (body, 400, expected)
        assert all(set(entry) == {"level", "message"} for entry in answer.body["metadata"]["logs"])


CODES: list[tuple[str, str, dict[str, str], tuple[int, str]]] = [
    ("GET", f"{ITEMS}?page=x", {}, (400, "invalid")),
    ("GET", f"{ITEMS}?page=1&page=2", {}, (400, "duplicate")),
    ("POST", ITEMS, {"Content-Type": "text/plain"}, (400, "unsupported_media_type")),
    ("GET", ITEMS, {"Host": "evil.example.com"}, (400, "bad_request")),
    ("GET", ITEMS, {"Authorization": "Bearer nothing"}, (401, "authentication_failed")),
    ("GET", "/api/v1/nothing", {}, (404, "unknown_path")),
    ("PATCH", "/api/v1/notifications/none", {"Content-Type": "application/json"}, (404, "not_found")),
    ("PUT", ITEMS, {}, (405, "method_not_allowed")),
    ("GET", "/api/v1/crash", {}, (500, "internal_error")),
    ("GET", "/api/v1/crash-in-renderer", {}, (500, "internal_error")),
    ("GET", ITEMS, {"X-Test-Crash": "middleware"}, (500, "internal_error")),
    # Outside the API, too.
    ("GET", "/nothing", {}, (404, "unknown_path")),
    ("POST", "/health", {}, (405, "method_not_allowed")),
    ("GET", "/ready", {}, (503, "unavailable")),
]


def test_every_error_has_a_code(api: Api, client: Client, settings: Any) -> None:
    for method, path, headers, expected in CODES:
        answer = api(method, path, raw=b"{}" if "Content-Type" in headers else None, headers=dict(headers))
        assert (path, *code(answer)) == (path, *expected)
    assert code(Api().get(ITEMS)) == (401, "not_authenticated")
    Item.objects.create(identifier="item-1", name="First")
    assert code(api.post(ITEMS, {"id": "item-1", "name": "Second"})) == (409, "id_taken")
    settings.RATE_LIMIT_SAMPLE = "1/d"
    assert [api.get(ITEMS).headers.get("error-code") for _ in range(2)] == [None, "throttled"]
    settings.SECURE_SSL_REDIRECT = True
    assert client.get(ITEMS).headers["Error-Code"] == "https_required"


@pytest.mark.parametrize(
    ("error", "expected"),
    [(Busy(), (429, "busy")), (OperationalError("the database is gone"), (503, "database_unavailable"))],
)
def test_a_service_that_cannot_answer_now_has_a_code(
    api: Api, monkeypatch: pytest.MonkeyPatch, error: Exception, expected: tuple[int, str]
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(CrashView, "get", fail)
    assert code(api.get("/api/v1/crash")) == expected


def test_a_failure_outside_of_django_has_a_code() -> None:
    sent: list[Any] = []
    list(application({"REQUEST_METHOD": "GET"}, lambda *head: sent.extend(head)))
    assert sent == [
        "500 Internal Server Error",
        [("Content-Type", "application/json"), ("Error-Code", "internal_error")],
    ]


def test_the_code_is_on_the_wire(wire: WireApi) -> None:
    assert code(wire.get("/api/v1/nothing")) == (404, "unknown_path")
    long = raw.bearer(wire.token) + b"Content-Type: application/json\r\nContent-Length: 1048577\r\n"
    assert code(raw.send(wire.port, raw.request(b"POST", b"/api/v1/items", long))) == (400, "body_too_large")
    odd = raw.bearer(wire.token) + b"X-Name: \xff\r\n"
    assert code(raw.send(wire.port, raw.request(b"GET", b"/api/v1/items", odd))) == (400, "invalid_header")


def test_a_failed_call_has_the_code_of_json_rpc_alone(api: Api) -> None:
    call = {"jsonrpc": "2.0", "method": "nothing"}
    assert code(api.post(rpc_calls.PATH, call)) == (404, "not_found")
    rpc_calls.relayer()
    answer = api.post(rpc_calls.PATH, call)
    assert (answer.status, "error-code" in answer.headers) == (200, False)
