"""Request bodies are read literally: JSON and nothing else, types as written, values kept to the byte."""

import json

import pytest

from tests.api import Api, WireApi
from tests.contract import bodies, raw
from tests.sample.models import Item

LIMIT = 1_048_576
TOO_LONG = f"the body is over {LIMIT} bytes"


def body_of(size: int) -> bytes:
    """Return a good body of exactly this many bytes."""
    frame = b'{"id":"item-1","name":"%s"}'
    return frame % (b"x" * (size - len(frame) + 2))


def chunked(body: bytes, size: int) -> bytes:
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def test_a_value_that_is_no_text_is_a_bad_request(api: Api) -> None:
    for value in (123, 0, -1.5, True, False, ["a"], [], {"a": "b"}, {}):
        answer = api.post("/api/v1/items", {"id": value, "name": value})
        faults = bodies.bad_request("id: a string is required", "name: a string is required")
        assert (value, answer.status, answer.body) == (value, 400, faults)
    for body, fault in (
        ({"id": None, "name": "First"}, "id: null is not allowed here"),
        ({"id": "", "name": "b"}, "id: an empty string is not allowed here"),
        ({"name": "b"}, "id: this field is required"),
        *(({"id": "a", "name": name}, "name: Null characters are not allowed.") for name in ("\u0000", "a\u0000b")),
    ):
        answer = api.post("/api/v1/items", body)
        assert (answer.status, answer.body) == (400, bodies.bad_request(fault))
    assert not Item.objects.exists()


def test_a_field_that_is_not_known_is_a_bad_request(api: Api) -> None:
    for name in ("colour", "ID", "id ", "created_at", "pk", "__class__", "\u0000", "ид"):
        answer = api.post("/api/v1/items", {"id": "item-1", "name": "First", name: "red"})
        assert (answer.status, answer.body) == (400, bodies.bad_request(f"{name}: unknown field"))
    assert not Item.objects.exists()


def test_a_secret_that_was_sent_as_a_name_is_not_repeated(api: Api) -> None:
    name = f"https://user:{'hunter2' * 5}@example.com/"
    answer = api.post("/api/v1/items", {"name": "x", name: "x"})
    assert answer.status == 400
    assert b"hunter2" not in answer.text


NOT_READ: list[tuple[str, list[bytes | None]]] = [
    ("an object is required", [b"null", b"[]", b"1", b"1.5", b'"text"', b"true", b'[{"id":"a","name":"b"}]']),
    ("the body is empty", [b"", None]),
    (
        "duplicate key",
        [
            b'{"id":"a","name":"b","name":"b"}',
            b'{"id":"a","name":"b","\\u006eame":"c"}',
            b'{"id":"a","name":{"deep":{"x":1,"x":2}}}',
            b'{"id":"a","name":[{"x":1,"y":2,"x":3}]}',
            b'{"id":"a","name":"b","":1,"":2}',
        ],
    ),
    (
        "the body is not valid JSON",
        [
            *(b" ", b"{", b'{"id":"a","name":"b"', b'{"id":"a","name":"b"}}', b'{"id":"a","name":"b"} {}'),
            *(b'{"id":"a","name":"b",}', b"{'id':'a','name':'b'}", b'{id:"a",name:"b"}', b"id=a&name=b"),
            *(b'{"id":"a","name":%s}' % value for value in (b"NaN", b"1e400", b"Infinity", b"-Infinity", b"[[NaN]]")),
            *(b'{"id":"a","name":%s}' % value for value in (b"01", b"+1", b".5", b"0x1", b"9" * 5000)),
            *(b'{"id":"a","name":"%s"}' % value for value in (b"line\nbreak", b"nul\x00", b"\\x41", b"\\u12")),
            b'{"id":"a" /* why */,"name":"b"}',
            b'\xef\xbb\xbf{"id":"a","name":"b"}',
            b'{"id":"a",\xc2\xa0"name":"b"}',
        ],
    ),
    (
        "the body is not valid UTF-8 text",
        [
            *(b'{"id":"a","name":"%s"}' % value for value in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xc3")),
            *(b'{"id":"a","name":"%s"}' % value for value in (b"\xf4\x90\x80\x80", b"\\ud800", b"\\udc00\\ud800")),
            *('{"id":"a","name":"é"}'.encode(encoding) for encoding in ("utf-16", "utf-16-le", "latin-1")),
            b'{"id":"a","name":"b","\\uDFFF":1}',
            b'{"id":"a","name":["\\ud83d \\ude00"]}',
        ],
    ),
    (f"the body is over {LIMIT} bytes", [body_of(LIMIT + 1)]),
]


@pytest.mark.parametrize(("fault", "texts"), NOT_READ, ids=[fault for fault, _ in NOT_READ])
def test_what_cannot_be_read_is_a_bad_request(api: Api, fault: str, texts: list[bytes | None]) -> None:
    for text in texts:
        answer = api.post("/api/v1/items", raw=text)
        assert (text, answer.status, answer.body) == (text, 400, bodies.bad_request(fault))
    assert not Item.objects.exists()


def test_the_content_type_is_json_with_any_parameter(api: Api) -> None:
    fault = bodies.bad_request("the content type must be application/json")
    for content_type in (
        *("text/plain", "text/json", "application/jsonx", "application/x-www-form-urlencoded", "multipart/form-data"),
        *("multipart/form-data; boundary=x", "application/vnd.api+json", "*/*", "json", ";", ""),
    ):
        answer = api.post("/api/v1/items", raw=b'{"id":"a","name":"b"}', headers={"Content-Type": content_type})
        assert (content_type, answer.status, answer.body) == (content_type, 400, fault)
    parameters = ("", "; charset=utf-8", ";odd", " ")
    for content_type in ("Application/JSON", *(f"application/json{each}" for each in parameters)):
        answer = api.post("/api/v1/items", raw=b'{"id":"a","name":"b"}', headers={"Content-Type": content_type})
        assert (answer.status, answer.body) == (201, bodies.success({"id": "a", "name": "b"}))
        Item.objects.all().delete()


def test_a_value_is_kept_to_the_byte(api: Api) -> None:
    for value in (
        *(" ", "  padded\t", "\n\r\n", "caf\u00e9", "cafe\u0301", "\u212b\ufb01\u00df\u0130", "MiXeD", "123", "null"),
        *("\u0001\u001f\u007f\u0085", "\u2028\u2029\ufeff\u200b\u202e", "\U0001f600\U0010ffff\ufffe\uffff"),
        *("<b>&amp;</b>\\ud800 %s {} '\"", "x" * 100_000),
    ):
        body = json.dumps({"id": "item-1", "name": value}, ensure_ascii=False).encode()
        created = api.post("/api/v1/items", raw=body)
        assert (created.status, created.body) == (201, bodies.success({"id": "item-1", "name": value}))
        assert Item.objects.get().name == value
        assert api.get("/api/v1/items").body == bodies.page([{"id": "item-1", "name": value}], total_items=1)
        Item.objects.all().delete()


def test_an_escaped_value_is_the_value_it_writes(api: Api) -> None:
    answer = api.post("/api/v1/items", raw=b'{"id":"\\u0061\\/\\"","name":"\\ud83d\\ude00\\\\ud800"}')
    assert (answer.status, answer.body) == (201, bodies.success({"id": 'a/"', "name": "\U0001f600\\ud800"}))


def test_ids_that_differ_in_case_or_form_alone_are_different(api: Api) -> None:
    for identifier in ("caf\u00e9", "cafe\u0301", "CAF\u00c9", " caf\u00e9", "caf\u00e9 "):
        answer = api.post("/api/v1/items", {"id": identifier, "name": "b"})
        assert (answer.status, answer.body) == (201, bodies.success({"id": identifier, "name": "b"}))


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


def test_a_length_over_the_limit_is_refused_before_the_body_comes(wire: WireApi) -> None:
    headers = raw.bearer(wire.token) + b"Content-Type: application/json\r\nContent-Length: %s\r\n"
    for length in (b"1048577", b"9" * 18):
        answer = raw.send(wire.port, raw.request(b"POST", b"/api/v1/items", headers % length))
        assert (answer.status, answer.body) == (400, bodies.bad_request(TOO_LONG))


def test_a_body_in_chunks_is_read_up_to_the_limit(wire: WireApi) -> None:
    headers = raw.bearer(wire.token) + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    head = raw.request(b"POST", b"/api/v1/items", headers)
    for size in (LIMIT + 1, 3 * LIMIT):
        answer = raw.send(wire.port, head + chunked(body_of(size), 65_536))
        assert (answer.status, answer.body) == (400, bodies.bad_request(TOO_LONG))
    for chunks in (b"zz\r\n{}", b"2\r\n{}\r\nzz\r\n", b"-1\r\n", b"2\r\n{}xx0\r\n\r\n"):
        answer = raw.send(wire.port, head + chunks)
        assert (answer.status, answer.body) == (400, bodies.bad_request("the body ended early"))
    assert not Item.objects.exists()
    answer = raw.send(wire.port, head + chunked(b'{"id":"item-1","name":"First"}', 7))
    assert (answer.status, answer.body) == (201, bodies.success({"id": "item-1", "name": "First"}))


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
