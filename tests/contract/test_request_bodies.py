"""Request bodies are read literally: JSON and nothing else, types as written, values kept to the byte."""

import json
from typing import Any

import pytest

from tests.api import Api, WireApi
from tests.contract import bodies, raw
from tests.sample.models import Item

LIMIT = 1_048_576
NOT_JSON = "the body is not valid JSON"
NOT_TEXT = "the body is not valid UTF-8 text"
TWICE = "duplicate key"
TOO_LONG = f"the body is over {LIMIT} bytes"


def body_of(size: int) -> bytes:
    """Return a good body of exactly this many bytes."""
    frame = b'{"id":"item-1","name":"%s"}'
    return frame % (b"x" * (size - len(frame) + 2))


def chunked(body: bytes, size: int) -> bytes:
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


@pytest.mark.parametrize("value", [123, 0, -1.5, True, False, ["a"], [], {"a": "b"}, {}])
def test_what_is_no_json_string_is_no_string(api: Api, value: Any) -> None:
    answer = api.post("/api/v1/items", {"id": value, "name": value})
    assert (answer.status, answer.body) == (
        400,
        bodies.bad_request("id: a string is required", "name: a string is required"),
    )
    assert not Item.objects.exists()


def test_null_is_no_string(api: Api) -> None:
    answer = api.post("/api/v1/items", {"id": None, "name": "First"})
    assert (answer.status, answer.body) == (400, bodies.bad_request("id: null is not allowed here"))


def test_a_missing_field_is_named(api: Api) -> None:
    answer = api.post("/api/v1/items", {})
    assert (answer.status, answer.body) == (
        400,
        bodies.bad_request("id: this field is required", "name: this field is required"),
    )


@pytest.mark.parametrize("name", ["colour", "ID", "id ", "created_at", "pk", "__class__", "\u0000", "ид"])
def test_a_field_that_is_not_known_is_a_bad_request(api: Api, name: str) -> None:
    answer = api.post("/api/v1/items", {"id": "item-1", "name": "First", name: "red"})
    assert (answer.status, answer.body) == (400, bodies.bad_request(f"{name}: unknown field"))
    assert not Item.objects.exists()


def test_a_secret_that_was_sent_as_a_name_is_not_repeated(api: Api) -> None:
    name = f"https://user:{'hunter2' * 5}@example.com/"
    answer = api.post("/api/v1/items", {"name": "x", name: "x"})
    assert answer.status == 400
    assert b"hunter2" not in answer.text


@pytest.mark.parametrize("body", [b"null", b"[]", b"1", b"1.5", b'"text"', b"true", b'[{"id":"a","name":"b"}]'])
def test_a_body_that_is_no_object_is_a_bad_request(api: Api, body: bytes) -> None:
    answer = api.post("/api/v1/items", raw=body)
    assert (answer.status, answer.body) == (400, bodies.bad_request("an object is required"))


def test_an_empty_body_is_a_bad_request(api: Api) -> None:
    answer = api.post("/api/v1/items", raw=b"")
    assert (answer.status, answer.body) == (400, bodies.bad_request("the body is empty"))
    answer = api.post("/api/v1/items")
    assert (answer.status, answer.body) == (400, bodies.bad_request("the body is empty"))


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"a","name":"b","name":"c"}',
        b'{"id":"a","name":"b","name":"b"}',
        b'{"id":"a","name":"b","\\u006eame":"c"}',
        b'{"id":"a","name":{"deep":{"x":1,"x":2}}}',
        b'{"id":"a","name":[{"x":1,"y":2,"x":3}]}',
        b'{"id":"a","name":"b","":1,"":2}',
    ],
)
def test_a_duplicate_key_is_a_bad_request(api: Api, body: bytes) -> None:
    answer = api.post("/api/v1/items", raw=body)
    assert (answer.status, answer.body) == (400, bodies.bad_request(TWICE))
    assert not Item.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        b" ",
        b"{",
        b'{"id":"a","name":"b"',
        b'{"id":"a","name":"b"}}',
        b'{"id":"a","name":"b"} {}',
        b'{"id":"a","name":"b",}',
        b"{'id':'a','name':'b'}",
        b'{id:"a",name:"b"}',
        b'{"id":"a","name":NaN}',
        b'{"id":"a","name":1e400}',
        b'{"id":"a","name":Infinity}',
        b'{"id":"a","name":-Infinity}',
        b'{"id":"a","name":[[NaN]]}',
        b'{"id":"a","name":01}',
        b'{"id":"a","name":+1}',
        b'{"id":"a","name":.5}',
        b'{"id":"a","name":0x1}',
        b'{"id":"a","name":"line\nbreak"}',
        b'{"id":"a","name":"nul\x00"}',
        b'{"id":"a","name":"\\x41"}',
        b'{"id":"a","name":"\\u12"}',
        b'{"id":"a" /* why */,"name":"b"}',
        b'\xef\xbb\xbf{"id":"a","name":"b"}',
        b'{"id":"a",\xc2\xa0"name":"b"}',
        b'{"id":"a","name":' + b"9" * 5000 + b"}",
        b"id=a&name=b",
    ],
    ids=lambda body: repr(body[:40]),
)
def test_what_is_no_json_is_a_bad_request(api: Api, body: bytes) -> None:
    answer = api.post("/api/v1/items", raw=body)
    assert (answer.status, answer.body) == (400, bodies.bad_request(NOT_JSON))
    assert not Item.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"a","name":"\xff"}',
        b'{"id":"a","name":"\xc0\xaf"}',
        b'{"id":"a","name":"\xed\xa0\x80"}',
        b'{"id":"a","name":"\xf4\x90\x80\x80"}',
        b'{"id":"a","name":"\xc3"}',
        '{"id":"a","name":"b"}'.encode("utf-16"),
        '{"id":"a","name":"é"}'.encode("utf-16-le"),
        '{"id":"a","name":"é"}'.encode("latin-1"),
        b'{"id":"a","name":"\\ud800"}',
        b'{"id":"a","name":"\\udc00\\ud800"}',
        b'{"id":"a","name":"b","\\uDFFF":1}',
        b'{"id":"a","name":["\\ud83d \\ude00"]}',
    ],
)
def test_what_is_no_text_is_a_bad_request(api: Api, body: bytes) -> None:
    answer = api.post("/api/v1/items", raw=body)
    assert (answer.status, answer.body) == (400, bodies.bad_request(NOT_TEXT))
    assert not Item.objects.exists()


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "text/json",
        "application/jsonx",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "multipart/form-data",
        "application/vnd.api+json",
        "*/*",
        "json",
        ";",
        "",
    ],
)
def test_another_content_type_is_a_bad_request(api: Api, content_type: str) -> None:
    answer = api.post("/api/v1/items", raw=b'{"id":"a","name":"b"}', headers={"Content-Type": content_type})
    assert (answer.status, answer.body) == (400, bodies.bad_request("the content type must be application/json"))
    assert not Item.objects.exists()


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;odd",
        " application/json ",
    ],
)
def test_a_json_content_type_is_accepted_with_any_parameter(api: Api, content_type: str) -> None:
    answer = api.post("/api/v1/items", raw=b'{"id":"a","name":"b"}', headers={"Content-Type": content_type})
    assert (answer.status, answer.body) == (201, bodies.success({"id": "a", "name": "b"}))


@pytest.mark.parametrize(
    "value",
    [
        " ",
        "  padded\t",
        "\n\r\n",
        "caf\u00e9",
        "cafe\u0301",
        "\u212b\ufb01\u00df\u0130",
        "MiXeD",
        "123",
        "null",
        "\u0001\u001f\u007f\u0085",
        "\u2028\u2029\ufeff\u200b\u202e",
        "\U0001f600\U0010ffff\ufffe\uffff",
        "<b>&amp;</b>\\ud800 %s {} '\"",
        "x" * 100_000,
    ],
    ids=lambda value: ascii(value[:20]),
)
def test_a_value_is_kept_to_the_byte(api: Api, value: str) -> None:
    body = json.dumps({"id": "item-1", "name": value}, ensure_ascii=False).encode()
    created = api.post("/api/v1/items", raw=body)
    assert (created.status, created.body) == (201, bodies.success({"id": "item-1", "name": value}))
    assert Item.objects.get().name == value
    assert api.get("/api/v1/items").body == bodies.page([{"id": "item-1", "name": value}], total_items=1)


def test_an_escaped_value_is_the_value_it_writes(api: Api) -> None:
    answer = api.post("/api/v1/items", raw=b'{"id":"\\u0061\\/\\"","name":"\\ud83d\\ude00\\\\ud800"}')
    assert (answer.status, answer.body) == (201, bodies.success({"id": 'a/"', "name": "\U0001f600\\ud800"}))


def test_ids_that_differ_in_case_or_form_alone_are_different(api: Api) -> None:
    for identifier in ("caf\u00e9", "cafe\u0301", "CAF\u00c9", " caf\u00e9", "caf\u00e9 "):
        answer = api.post("/api/v1/items", {"id": identifier, "name": "b"})
        assert (answer.status, answer.body) == (201, bodies.success({"id": identifier, "name": "b"}))


@pytest.mark.parametrize("value", ["\u0000", "a\u0000b", "a\u0000"])
def test_a_nul_inside_a_string_is_a_bad_request(api: Api, value: str) -> None:
    answer = api.post("/api/v1/items", {"id": "item-1", "name": value})
    assert (answer.status, answer.body) == (400, bodies.bad_request("name: Null characters are not allowed."))


def test_an_empty_string_is_a_bad_request_where_the_field_needs_one(api: Api) -> None:
    answer = api.post("/api/v1/items", {"id": "", "name": "b"})
    assert (answer.status, answer.body) == (400, bodies.bad_request("id: an empty string is not allowed here"))


def test_a_length_is_counted_in_characters(api: Api) -> None:
    longest = "\U0001f600" * 255
    answer = api.post("/api/v1/items", {"id": longest, "name": "b"})
    assert (answer.status, answer.body) == (201, bodies.success({"id": longest, "name": "b"}))
    answer = api.post("/api/v1/items", {"id": "x" * 256, "name": "b"})
    assert (answer.status, answer.body) == (400, bodies.bad_request("id: at most 255 characters are allowed"))


def test_a_body_of_the_most_bytes_is_read(api: Api) -> None:
    answer = api.post("/api/v1/items", raw=body_of(LIMIT))
    name = "x" * (LIMIT - len('{"id":"item-1","name":""}'))
    assert (answer.status, answer.body) == (201, bodies.success({"id": "item-1", "name": name}))


def test_a_body_over_the_limit_is_a_bad_request(api: Api) -> None:
    answer = api.post("/api/v1/items", raw=body_of(LIMIT + 1))
    assert (answer.status, answer.body) == (400, bodies.bad_request(TOO_LONG))
    assert not Item.objects.exists()


def test_a_length_over_the_limit_is_refused_before_the_body_comes(wire: WireApi) -> None:
    headers = raw.bearer(wire.token) + b"Content-Type: application/json\r\nContent-Length: %s\r\n"
    for length in (b"1048577", b"9" * 18):
        answer = raw.send(wire.port, raw.request(b"POST", b"/api/v1/items", headers % length))
        assert (answer.status, answer.body) == (400, bodies.bad_request(TOO_LONG))


def test_a_body_in_chunks_is_read(wire: WireApi) -> None:
    headers = raw.bearer(wire.token) + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    data = raw.request(b"POST", b"/api/v1/items", headers) + chunked(b'{"id":"item-1","name":"First"}', 7)
    answer = raw.send(wire.port, data)
    assert (answer.status, answer.body) == (201, bodies.success({"id": "item-1", "name": "First"}))


@pytest.mark.parametrize("size", [LIMIT + 1, 3 * LIMIT])
def test_a_body_in_chunks_over_the_limit_is_a_bad_request(wire: WireApi, size: int) -> None:
    headers = raw.bearer(wire.token) + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    data = raw.request(b"POST", b"/api/v1/items", headers) + chunked(body_of(size), 65_536)
    answer = raw.send(wire.port, data)
    assert (answer.status, answer.body) == (400, bodies.bad_request(TOO_LONG))
    assert not Item.objects.exists()


@pytest.mark.parametrize("chunks", [b"zz\r\n{}", b"2\r\n{}\r\nzz\r\n", b"-1\r\n", b"2\r\n{}xx0\r\n\r\n"])
def test_chunks_that_cannot_be_read_are_a_bad_request(wire: WireApi, chunks: bytes) -> None:
    headers = raw.bearer(wire.token) + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    answer = raw.send(wire.port, raw.request(b"POST", b"/api/v1/items", headers) + chunks)
    assert (answer.status, answer.body) == (400, bodies.bad_request("the body ended early"))


def test_a_body_that_ends_early_is_a_bad_request(wire: WireApi) -> None:
    headers = raw.bearer(wire.token) + b"Content-Type: application/json\r\nContent-Length: 100\r\n"
    data = raw.request(b"POST", b"/api/v1/items", headers) + b'{"id":"item-1","name":"First"}'
    answer = raw.send(wire.port, data, end=True)
    assert (answer.status, answer.body) == (400, bodies.bad_request("the body ended early"))
    assert not Item.objects.exists()


def test_a_body_on_a_list_is_not_read(api: Api) -> None:
    answer = api("GET", "/api/v1/items", raw=b"\xff{")
    ignored = ["the body was ignored: this operation accepts none"]
    assert (answer.status, answer.body) == (200, bodies.page([], total_items=0, logs=ignored))
