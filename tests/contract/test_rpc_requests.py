"""Sections 4.5 and 7: what is no JSON-RPC request is a bad request, in the error envelope."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relayer_service.observability.call_counts import CallCount
from rpc import counters
from tests.api import Api
from tests.chain.fee_node import FeeNode
from tests.contract import bodies
from tests.contract.rpc_calls import CALL, PATH, node, relayer

__all__ = ["node"]

TEXT = json.dumps(CALL).encode()
LIMIT = 1_048_576
VERSION = "jsonrpc: must be one of: 2.0"
NOT_AN_ID = "id: a string, a whole number or null is required"
NOT_JSON = "the body is not valid JSON"


def without(name: str) -> dict[str, Any]:
    return {other: value for other, value in CALL.items() if other != name}


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        (None, ["an object is required"]),
        (1, ["an object is required"]),
        ("feeEstimate", ["an object is required"]),
        (True, ["an object is required"]),
        ([], ["an object is required"]),
        ([CALL], ["an object is required"]),
        ([CALL, CALL], ["an object is required"]),
        ({}, ["jsonrpc: this field is required", "method: this field is required"]),
        (without("jsonrpc"), ["jsonrpc: this field is required"]),
        (CALL | {"jsonrpc": None}, ["jsonrpc: null is not allowed here"]),
        *((CALL | {"jsonrpc": version}, [VERSION]) for version in ("1.0", "2", "2.00", " 2.0", "", 2, 2.0, ["2.0"])),
        (without("method"), ["method: this field is required"]),
        (CALL | {"method": None}, ["method: null is not allowed here"]),
        *((CALL | {"method": method}, ["method: a string is required"]) for method in (1, True, 1.5, ["a"], {"a": 1})),
        (CALL | {"method": "a\0"}, ["method: Null characters are not allowed."]),
        (CALL | {"params": None}, ["params: null is not allowed here"]),
        *(
            (CALL | {"params": params}, ["params: an object is required"])
            for params in ([], [CALL["params"]], "ETH", "", 1, 0, True, False)
        ),
        *((CALL | {"id": identifier}, [NOT_AN_ID]) for identifier in (True, False, 1.5, 1.0, [], ["1"], {}, {"a": 1})),
        (CALL | {"result": {}}, ["result: unknown field"]),
        (CALL | {"Method": "feeEstimate"}, ["Method: unknown field"]),
        (
            {"version": "2.0", "id": [], "method": 1, "params": []},
            [
                "version: unknown field",
                "jsonrpc: this field is required",
                NOT_AN_ID,
                "method: a string is required",
                "params: an object is required",
            ],
        ),
    ],
    ids=repr,
)
def test_what_is_no_request_is_a_bad_request(api: Api, node: FeeNode, body: Any, faults: list[str]) -> None:
    relayer(node)
    answer = api.post(PATH, raw=json.dumps(body).encode())
    assert (answer.status, answer.body) == (400, bodies.bad_request(*faults))
    assert answer.headers["content-type"] == "application/json"
    assert node.asked == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", "the body is empty"),
        (b" ", NOT_JSON),
        (b"{", NOT_JSON),
        (TEXT[:-1], NOT_JSON),
        (TEXT + TEXT, NOT_JSON),
        (TEXT.replace(b"1", b"NaN", 1), NOT_JSON),
        (TEXT.replace(b'"id": 1', b'"id": ' + b"1" * 5_000), NOT_JSON),
        (TEXT + b"\xff", "the body is not valid UTF-8 text"),
        (TEXT.replace(b'"id": 1', b'"id": "\\ud800"'), "the body is not valid UTF-8 text"),
        (TEXT.replace(b'"id": 1', b'"id": 1, "id": 1'), "duplicate key"),
        (TEXT.replace(b'"network"', b'"fee_token"'), "duplicate key"),
    ],
    ids=lambda value: str(value[:30]),
)
def test_what_is_no_json_is_a_bad_request(api: Api, body: bytes, fault: str) -> None:
    relayer()
    answer = api.post(PATH, raw=body)
    assert (answer.status, answer.body) == (400, bodies.bad_request(fault))


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "application/json-rpc", "x"]
)
def test_another_content_type_is_a_bad_request(api: Api, content_type: str) -> None:
    relayer()
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


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"jsonrpc":"2.0"}'])
def test_a_bad_request_comes_before_an_unknown_relayer(api: Api, body: bytes) -> None:
    answer = api.post("/api/v1/relayers/relayer-2/rpc", raw=body)
    assert (answer.status, answer.body["message"]) == (400, "Bad Request")


def test_a_query_changes_nothing(api: Api) -> None:
    relayer()
    answer = api.post(f"{PATH}?method=feeEstimate&jsonrpc=1.0&page=x", CALL | {"method": "nothing"})
    assert answer.body["error"]["code"] == -32601


def test_what_is_no_request_is_not_counted_as_a_call(api: Api) -> None:
    relayer()
    assert api.post(PATH, []).status == 400
    counters.flush()
    assert not CallCount.objects.exists()
