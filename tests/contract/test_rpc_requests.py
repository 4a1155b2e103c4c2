"""Sections 4.5 and 7: what is no JSON-RPC request is a bad request, in the error envelope."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from relayer_service.observability.call_counts import CallCount
from rpc import counters
from tests.api import Api
from tests.chain.fee_node import FeeNode
from tests.contract import bodies
from tests.contract.rpc_calls import CALL, PATH, node, relayer

__all__ = ["node"]

TEXT = json.dumps(CALL).encode()
LIMIT = 1_048_576
NOT_JSON = "the body is not valid JSON"


def with_id(text: bytes) -> bytes:
    return TEXT.replace(b'"id": 1', b'"id": ' + text)


def bad_requests() -> Iterator[tuple[Any, list[str]]]:
    """Yield bodies with their faults."""
    for body in (None, 1, "feeEstimate", True, [], [CALL], [CALL, CALL]):
        yield body, ["an object is required"]
    yield {}, ["jsonrpc: this field is required", "method: this field is required"]
    for name in ("jsonrpc", "method"):
        yield {other: value for other, value in CALL.items() if other != name}, [f"{name}: this field is required"]
    for name in ("jsonrpc", "method", "params"):
        yield CALL | {name: None}, [f"{name}: null is not allowed here"]
    for name, fault, values in (
        ("jsonrpc", "must be one of: 2.0", ["1.0", "2", "2.00", " 2.0", "", 2, 2.0, ["2.0"]]),
        ("method", "a string is required", [1, True, 1.5, ["a"], {"a": 1}]),
        ("method", "Null characters are not allowed.", ["a\0"]),
        ("params", "an object is required", [[], [CALL["params"]], "ETH", "", 1, 0, True, False]),
        ("id", "a string, a whole number or null is required", [True, False, 1.5, 1.0, [], ["1"], {}, {"a": 1}]),
        ("result", "unknown field", [{}]),
        ("Method", "unknown field", ["feeEstimate"]),
    ):
        for value in values:
            yield CALL | {name: value}, [f"{name}: {fault}"]
    yield (
        {"version": "2.0", "id": [], "method": 1, "params": []},
        [
            "version: unknown field",
            "jsonrpc: this field is required",
            "id: a string, a whole number or null is required",
            "method: a string is required",
            "params: an object is required",
        ],
    )


def test_what_is_no_request_is_a_bad_request_and_no_call(api: Api, node: FeeNode) -> None:
    relayer(node)
    for body, faults in bad_requests():
        answer = api.post(PATH, raw=json.dumps(body).encode())
        assert (answer.status, answer.body) == (400, bodies.bad_request(*faults))
        assert answer.headers["content-type"] == "application/json"
    assert node.asked == []
    counters.flush()
    assert not CallCount.objects.exists()


def test_what_is_no_json_is_a_bad_request_before_an_unknown_relayer(api: Api) -> None:
    relayer()
    for fault, texts in {
        "the body is empty": [b""],
        NOT_JSON: [
            b" ",
            b"{",
            TEXT[:-1],
            TEXT + TEXT,
            with_id(b"NaN"),
            with_id(b"1" * 5_000),
        ],
        "the body is not valid UTF-8 text": [TEXT + b"\xff", with_id(b'"\\ud800"')],
        "duplicate key": [with_id(b'1, "id": 1'), TEXT.replace(b'"network"', b'"fee_token"')],
    }.items():
        for text in texts:
            for path in (PATH, "/api/v1/relayers/relayer-2/rpc"):
                answer = api.post(path, raw=text)
                assert (text, answer.status, answer.body) == (text, 400, bodies.bad_request(fault))
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "application/json-rpc", "x"):
        answer = api.post(PATH, raw=TEXT, headers={"Content-Type": content_type})
        assert (answer.status, answer.body) == (400, bodies.bad_request("the content type must be application/json"))


def test_a_request_up_to_the_size_limit_is_read(api: Api) -> None:
    relayer()
    frame = b'{"jsonrpc":"2.0","id":"1","method":"%s"}'
    for over in (0, 1):
        answer = api.post(PATH, raw=frame % (b"x" * (LIMIT - len(frame) + 2 + over)))
        if over:
            assert (answer.status, answer.body) == (400, bodies.bad_request(f"the body is over {LIMIT} bytes"))
        else:
            unknown = "This method does not exist on relayers of type evm."
            assert (answer.status, answer.body) == (200, bodies.rpc_error(-32601, "Method not found", unknown))


def test_a_query_changes_nothing(api: Api) -> None:
    relayer()
    answer = api.post(f"{PATH}?method=feeEstimate&jsonrpc=1.0&page=x", CALL | {"method": "nothing"})
    assert answer.body["error"]["code"] == -32601
