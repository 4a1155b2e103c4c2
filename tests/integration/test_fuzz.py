"""Random bytes as path, headers and body: the server refuses what is not HTTP, and all else gets the envelope."""

import json
from typing import Any
from urllib.parse import quote, quote_from_bytes

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifications.models import Notification
from relayers.models import Relayer
from tests.api import Answer, WireApi
from tests.contract import raw
from tests.relayers.factories import relayer

FUZZ = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    # One server and one token serve all examples; what they create stays until the test ends.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
# What is tried is read before a database is asked.
pytestmark = [pytest.mark.long, pytest.mark.one_engine]

# Bytes that mean something in a request stand among the random ones, so that more than its first line is tried.
NOISE = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=20),
        st.sampled_from([b"/", b"//", b"..", b"%", b"%00", b"%ff", b"?", b"&", b"=", b"#", b";", b" ", b"v1/items"]),
        st.sampled_from([b"v1/notifications/", b"v1/relayers/", b"/rpc", b"%2F", b"%0A"]),
        st.sampled_from([b"page=", b"per_page=", b"9" * 30, b"\r\n", b"\n", b"\x00", b"\xc3\xa9", b"HTTP/1.1"]),
    ),
    max_size=12,
).map(b"".join)
# The server itself refuses most noise; the same bytes in a form that HTTP allows reach the service.
ENCODED = st.tuples(
    st.sampled_from(
        [
            "",
            "v1/",
            "v1/items/",
            "v1/items?",
            "v1/items?page=",
            "v1/items?per_page=2&page=",
            "v1/notifications/",
            "v1/relayers/",
        ]
    ),
    st.binary(max_size=40).map(lambda data: quote_from_bytes(data, safe="/?&=;+")),
).map(lambda parts: "".join(parts).encode())
VISIBLE = st.binary(max_size=60).map(lambda data: bytes(byte for byte in data if byte >= 32 and byte != 127))
HEADER_NAMES = st.one_of(
    st.from_regex(rb"[A-Za-z0-9_-]{1,12}", fullmatch=True),
    st.sampled_from(
        b"Accept Accept-Language Authorization Connection Content-Encoding Content-Length Content-Type Cookie Expect "
        b"Forwarded Host If-Modified-Since Origin PATH_INFO REMOTE_USER Range Referer SCRIPT_NAME Transfer-Encoding "
        b"Upgrade X-CSRFToken X-Forwarded-For X-Forwarded-Proto X-Request-ID".split()
    ),
)


def header_lines(names: st.SearchStrategy[bytes], values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    lines = st.tuples(names, values).map(lambda pair: b"%s: %s\r\n" % pair)
    return st.lists(lines, max_size=4).map(b"".join)


NOISY_HEADERS = header_lines(st.one_of(HEADER_NAMES, st.binary(max_size=12)), NOISE)
LEGAL_HEADERS = header_lines(HEADER_NAMES, VISIBLE)
# Names of two letters are no method to the server; HEAD would be an answer without a body.
METHODS = st.one_of(
    st.sampled_from([b"GET", b"POST", b"PATCH", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"ODD"]),
    st.binary(max_size=2),
)
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=8,
)
ITEMS = st.fixed_dictionaries({"id": st.one_of(st.text(), JSON_VALUES), "name": st.one_of(st.text(), JSON_VALUES)})
NOTIFICATIONS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.one_of(st.just("webhook"), JSON_VALUES),
        "url": st.one_of(
            st.text().map("https://example.com/{}".format), st.text().map("http://{}".format), JSON_VALUES
        ),
        "signing_key": st.one_of(st.text(), JSON_VALUES),
    },
)
CALLS = st.fixed_dictionaries(
    {"jsonrpc": st.one_of(st.just("2.0"), JSON_VALUES), "method": st.one_of(st.just("feeEstimate"), JSON_VALUES)},
    optional={
        "id": st.one_of(st.integers(), st.text(), JSON_VALUES),
        "params": st.one_of(
            st.fixed_dictionaries(
                {
                    "fee_token": st.one_of(st.just("ETH"), st.text(), JSON_VALUES),
                    "network": st.one_of(st.just("hardhat"), JSON_VALUES),
                    "transaction": st.one_of(st.binary().map(lambda data: f"0x{data.hex()}"), st.text(), JSON_VALUES),
                }
            ),
            JSON_VALUES,
        ),
    },
)
OBJECTS = st.one_of(ITEMS, NOTIFICATIONS, CALLS)
BODIES = st.one_of(
    st.binary(max_size=200),
    st.one_of(JSON_VALUES, OBJECTS).map(lambda value: json.dumps(value).encode()),
    st.tuples(OBJECTS, st.binary(min_size=1, max_size=3)).map(lambda pair: json.dumps(pair[0]).encode() + pair[1]),
)
JSON_TYPE = b"Content-Type: application/json\r\n"


def check(answer: Answer, *, paginated: bool = True) -> None:
    if raw.refused_by_server(answer):
        return
    assert answer.status < 500
    assert answer.headers["content-type"] == "application/json"
    body = answer.body
    if answer.status >= 400:
        assert set(body) - {"metadata"} == {"data", "message", "success"}
        assert (body["data"], body["success"]) == (None, False)
        assert ("metadata" in body) <= (answer.status == 400)
    else:
        assert answer.status in {200, 201}
        assert set(body) - {"pagination"} == {"data", "error", "metadata", "success"}
        assert (body["error"], body["success"]) == ("", True)
        assert ("pagination" in body) == (paginated and answer.status == 200)


@FUZZ
@given(path=st.one_of(NOISE, ENCODED))
def test_any_path_is_answered_in_the_envelope(wire: WireApi, path: bytes) -> None:
    check(raw.send(wire.port, raw.request(b"GET", b"/api/" + path, raw.bearer(wire.token))))


@FUZZ
@given(headers=st.one_of(NOISY_HEADERS, LEGAL_HEADERS))
def test_any_headers_are_answered_in_the_envelope(wire: WireApi, headers: bytes) -> None:
    check(raw.send(wire.port, raw.request(b"GET", b"/api/v1/items", raw.bearer(wire.token) + headers)))


@FUZZ
@given(body=BODIES)
def test_any_body_is_answered_in_the_envelope(wire: WireApi, body: bytes) -> None:
    headers = raw.bearer(wire.token) + JSON_TYPE
    check(raw.send(wire.port, raw.request(b"POST", b"/api/v1/items", headers, body)))


@FUZZ
@given(body=st.one_of(NOTIFICATIONS.map(lambda value: json.dumps(value).encode()), BODIES))
def test_any_body_of_a_patch_is_answered_in_the_envelope(wire: WireApi, body: bytes) -> None:
    Notification.objects.get_or_create(identifier="notification-1", defaults={"url": "https://example.com"})
    headers = raw.bearer(wire.token) + JSON_TYPE
    data = raw.request(b"PATCH", b"/api/v1/notifications/notification-1", headers, body)
    check(raw.send(wire.port, data), paginated=False)


@FUZZ
@given(identifier=st.one_of(st.text(), st.binary(max_size=40)).map(lambda text: quote(text, safe="/")))
def test_any_id_of_a_patch_is_answered_in_the_envelope(wire: WireApi, identifier: str) -> None:
    headers = raw.bearer(wire.token) + JSON_TYPE
    data = raw.request(b"PATCH", f"/api/v1/notifications/{identifier}".encode(), headers, b"{}")
    answer = raw.send(wire.port, data)
    check(answer)
    assert answer.status == 404


@FUZZ
@given(body=st.one_of(CALLS.map(lambda value: json.dumps(value).encode()), BODIES))
def test_any_body_of_a_call_is_answered_in_the_envelope_or_as_json_rpc(wire: WireApi, body: bytes) -> None:
    if not Relayer.objects.exists():
        relayer(network="hardhat")
    headers = raw.bearer(wire.token) + JSON_TYPE
    answer = raw.send(wire.port, raw.request(b"POST", b"/api/v1/relayers/relayer-1/rpc", headers, body))
    if answer.status != 200:
        check(answer)
        return
    # Random bytes are no transaction, so that no node is asked.
    assert set(answer.body) == {"jsonrpc", "id", "error"}
    assert set(answer.body["error"]) == {"code", "message", "description"}
    assert answer.body["error"]["code"] in {-32601, -32602}


@FUZZ
@given(identifier=st.one_of(st.text(min_size=1), st.binary(min_size=1, max_size=40)).map(lambda text: quote(text)))
def test_any_id_of_a_call_is_answered_in_the_envelope(wire: WireApi, identifier: str) -> None:
    headers = raw.bearer(wire.token) + JSON_TYPE
    body = b'{"jsonrpc":"2.0","method":"feeEstimate"}'
    answer = raw.send(wire.port, raw.request(b"POST", f"/api/v1/relayers/{identifier}/rpc".encode(), headers, body))
    check(answer)
    assert (answer.status, answer.body["message"][:16]) == (404, "Relayer with ID ")


@FUZZ
@given(method=METHODS, path=st.one_of(NOISE, ENCODED), headers=LEGAL_HEADERS, body=BODIES)
def test_any_request_is_answered_in_the_envelope(
    wire: WireApi, method: bytes, path: bytes, headers: bytes, body: bytes
) -> None:
    check(raw.send(wire.port, raw.request(method, b"/api/" + path, raw.bearer(wire.token) + headers, body)))
