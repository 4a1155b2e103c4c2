"""Section 2.1: the envelope of a success and what comes with every answer, on a resource of the tests' own."""

import socket
from pathlib import Path
from typing import Any

from tests.api import Api, WireApi
from tests.concurrency import PATIENCE_SECONDS
from tests.conftest import Log
from tests.contract import bodies, raw
from tests.sample.models import Item


def test_a_list_answers_the_success_envelope_with_pagination(api: Api) -> None:
    answer = api.get("/api/v1/items")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == {
        "data": [],
        "error": "",
        "metadata": {"logs": [], "traces": []},
        "pagination": {"current_page": 1, "per_page": 10, "total_items": 0},
        "success": True,
    }


def test_a_created_resource_is_answered_with_201_and_no_pagination(api: Api) -> None:
    answer = api.post("/api/v1/items", {"id": "item-1", "name": "First"})
    assert answer.status == 201
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == {
        "data": {"id": "item-1", "name": "First"},
        "error": "",
        "metadata": {"logs": [], "traces": []},
        "success": True,
    }
    assert Item.objects.values_list("identifier", "name").get() == ("item-1", "First")


def test_a_trailing_slash_is_answered_and_not_redirected(api: Api) -> None:
    created = api.post("/api/v1/items/", {"id": "item-1", "name": "First"})
    assert (created.status, created.body) == (201, bodies.success({"id": "item-1", "name": "First"}))
    listed = api.get("/api/v1/items/?per_page=5")
    assert (listed.status, listed.body) == (
        200,
        bodies.page([{"id": "item-1", "name": "First"}], per_page=5, total_items=1),
    )


def test_the_accept_header_and_a_format_parameter_change_nothing(api: Api) -> None:
    for accept in ("text/html", "application/xml;q=1, */*;q=0", "nonsense", "application/json; indent=4"):
        answer = api.get("/api/v1/items", headers={"Accept": accept})
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.text == api.get("/api/v1/items").text
    answer = api.get("/api/v1/items?format=xml")
    ignored = ["format: unknown query parameter, ignored"]
    assert (answer.status, answer.body) == (200, bodies.page([], total_items=0, logs=ignored))


def test_head_answers_the_headers_of_get_alone(api: Api) -> None:
    get, head = api.get("/api/v1/items"), api("HEAD", "/api/v1/items")
    assert (head.status, head.text) == (200, b"")
    assert head.headers["content-type"] == "application/json"
    assert head.headers["content-length"] == get.headers["content-length"] == str(len(get.text))


def test_head_gives_the_server_no_body_to_drop(wire: WireApi, server_log: Path) -> None:
    with socket.create_connection(("127.0.0.1", wire.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(raw.request(b"HEAD", b"/api/v1/items", raw.bearer(wire.token)))
        # The server has written its log when it closes the connection.
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert "no-body response" not in server_log.read_text()


def test_a_sane_request_id_is_taken_and_returned_and_logged(api: Api, log: Log) -> None:
    for sent in ("a", "0af7651916cd43dd8448eb211c80319c", "Web-1:2026.11_x", "x" * 128, "job5"):
        answer = api.get("/api/v1/items", headers={"X-Request-ID": sent})
        assert answer.headers["x-request-id"] == sent
        assert [line["message"].split(" 200 ")[0] for line in request_lines(log, sent)] == ["GET /api/v1/items"]


def test_any_other_request_id_is_replaced(api: Api, log: Log) -> None:
    for sent in ("", "a b", "x" * 129, "<script>", 'a"b', "a/b", "a,b", "a;b", "{}", "f" * 64, "job-5", "JOB-5"):
        made = api.get("/api/v1/items", headers={"X-Request-ID": sent} if sent else {}).headers["x-request-id"]
        assert (sent, len(made), made.isalnum()) == (sent, 20, True)
        assert [line["message"].split(" 200 ")[0] for line in request_lines(log, made)] == ["GET /api/v1/items"]


def test_errors_carry_the_request_id_too(api: Api) -> None:
    for path, status in {"/api/v1/none": 404, "/api/v1/items?page=x": 400, "/api/v1/crash": 500}.items():
        answer = api.get(path, headers={"X-Request-ID": "id-of-an-error"})
        assert (answer.status, answer.headers["x-request-id"]) == (status, "id-of-an-error")


def request_lines(log: Log, request_id: str) -> list[dict[str, Any]]:
    return [line for line in log.lines(request_id) if line["logger"] == "relayer_service.requests"]
