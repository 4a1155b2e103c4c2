"""What a node's answer means, as a table."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from chain.nodes.answers import BatchRefused, ChainError, Fault, check_chain_id, quantity, read_answers
from tests.chain.faults import error
from tests.notifications.clock import Clock

NOT_THESE = "returned an invalid response"
NO_IDS: list[Any] = [8, "7", 7.0, [7], {}]


def read(body: Any, ids: list[int], status: int = 200, retry_after: str = "") -> list[Any]:
    return read_answers(status, retry_after, orjson.dumps(body), ids)


def fault(body: Any, ids: list[int], status: int = 200, retry_after: str = "") -> Fault:
    with pytest.raises(Fault) as caught:
        read(body, ids, status, retry_after)
    return caught.value


@pytest.mark.parametrize(
    ("body", "ids", "found"),
    [
        ({"id": 7, "result": "0x1"}, [7], ["0x1"]),
        ({"id": 7, "result": "0x1", "error": None}, [7], ["0x1"]),
        ([{"id": 8, "result": "0x2"}, {"id": 7, "result": "0x1"}], [7, 8], ["0x1", "0x2"]),
        ({"id": 7, **error(-32601, "no such method")}, [7], [ChainError(-32601, "no such method")]),
        ({"id": 7, **error(3, "reverted", data="0x08")}, [7], [ChainError(3, "reverted", "0x08")]),
        ({"id": 7, **error(-32603, "execution reverted")}, [7], [ChainError(-32603, "execution reverted")]),
        ({"id": 7, **error(-32603, "out of gas", data={})}, [7], [ChainError(-32603, "out of gas", {})]),
    ],
)
def test_values_and_errors_of_the_chain_are_answers(body: Any, ids: list[int], found: list[Any]) -> None:
    assert read(body, ids) == found


@pytest.mark.parametrize("status", [400, 500])
def test_a_revert_is_an_answer_whatever_the_status(status: int) -> None:
    body = {"id": 7, **error(3, "execution reverted: rate limit")}
    assert read(body, [7], status) == [ChainError(3, "execution reverted: rate limit")]


@pytest.mark.parametrize(
    "body",
    [
        *(None, "0x1", [], {}, {"id": 7}, {"result": "0x1"}),
        *({"id": found, "result": "0x1"} for found in NO_IDS),
        *({"id": 7, "error": found} for found in ("no", {"code": "x", "message": "no"}, {"code": 1, "message": None})),
        [{"id": 7, "result": "0x1"}, {"id": 7, "result": "0x1"}],
    ],
)
def test_what_is_not_the_answer_to_the_call_is_a_fault(body: Any) -> None:
    assert str(fault(body, [7])) == NOT_THESE


def test_true_is_not_the_id_one_and_some_answers_are_not_all() -> None:
    assert str(fault({"id": True, "result": "0x1"}, [1])) == NOT_THESE
    assert str(fault([{"id": 7, "result": "0x1"}], [7, 8])) == NOT_THESE


@pytest.mark.parametrize("text", [b"", b"<html>", b"{", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_a_fault(text: bytes) -> None:
    with pytest.raises(Fault, match=NOT_THESE):
        read_answers(200, "", text, [7])


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (None, 500, "returned HTTP 500"),
        ({"id": 7, "result": "0x1"}, 500, "returned HTTP 500"),
        # A single call is never refused as a batch.
        ({"id": None, **error(-32600, "no")}, 400, "returned HTTP 400"),
        ({"id": 7, **error(-32600, "Must be authenticated!")}, 401, "returned HTTP 401"),
        ({"id": 7, **error(-32603, "Internal error")}, 200, "returned an internal error"),
        ({"id": 7, **error(-32000, "Header not found")}, 200, "does not have the latest state"),
        ({"id": 7, **error(-32000, "missing trie node 0x12")}, 200, "does not have the latest state"),
    ],
)
def test_what_a_node_says_of_itself_is_a_fault(body: Any, status: int, reason: str) -> None:
    found = fault(body, [7], status)
    assert (str(found), found.pause_seconds) == (reason, 0)


@pytest.mark.parametrize(
    "body",
    [
        {"id": 7, **error(429, "slow down")},
        {"id": 7, **error(-32005, "daily request count exceeded", data={"rate": {}})},
        {"id": 7, **error(-32000, "Too Many Requests")},
    ],
)
def test_a_node_that_limits_the_rate_is_paused(body: Any) -> None:
    found = fault(body, [7])
    assert (str(found), found.pause_seconds) == ("rate limit exceeded", 5)


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("7", 7),
        ("0", 1),
        ("9999999999999999", 300),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 1),
        ("soon", 5),
        ("-3", 5),
        ("", 5),
    ],
)
def test_a_node_is_paused_for_its_retry_after_within_limits(clock: Clock, retry_after: str, seconds: int) -> None:
    assert fault(None, [7], 429, retry_after).pause_seconds == seconds
    assert fault({"id": 7, **error(429, "slow down")}, [7], 200, retry_after).pause_seconds == seconds


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"id": None, **error(-32600, "batches are not supported")}, 200),
        ({"id": None, **error(-32600, "batch too large")}, 400),
        (None, 413),
        ({"detail": "a list is not expected"}, 422),
    ],
)
def test_a_batch_is_refused_by_an_error_for_all_of_it(body: Any, status: int) -> None:
    with pytest.raises(BatchRefused):
        read(body, [7, 8], status)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"error": {"code": 429, "message": "slow down"}}, 200, "rate limit exceeded"),
        ({"error": {"code": -32000, "message": "no"}}, 401, "returned HTTP 401"),
        ({"error": {"code": -32000, "message": "no"}}, 502, "returned HTTP 502"),
        (None, 404, "returned HTTP 404"),
        ({"id": 7, "result": "0x1"}, 200, NOT_THESE),
    ],
)
def test_other_answers_to_a_batch_do_not_refuse_it(body: Any, status: int, reason: str) -> None:
    assert str(fault(body, [7, 8], status)) == reason


@pytest.mark.parametrize(
    "body",
    [
        [{"id": 7, **error(-32600, "batch too large")}],
        [{"id": number, **error(-32000, "maximum 1 calls in 1 batch")} for number in (7, 8)],
    ],
    ids=["once", "for each"],
)
def test_a_batch_is_refused_by_a_list_that_says_it_is_too_large(body: Any) -> None:
    with pytest.raises(BatchRefused):
        read(body, [7, 8])


@pytest.mark.parametrize("code", [[1, 2], "429", True])
def test_a_code_of_any_type_is_no_crash(code: Any) -> None:
    with pytest.raises((Fault, BatchRefused)):
        read({"error": {"code": code, "message": "x"}}, [7, 8])


@pytest.mark.parametrize(
    ("answer", "number"),
    [("0x7A69", 31337), ("0x00ff", 255), ("0x" + "f" * 64, 2**256 - 1)],
)
def test_quantities_are_hexadecimal(answer: str, number: int) -> None:
    assert quantity(answer) == number


@pytest.mark.parametrize(
    "answer",
    ["0x", "12", "-0x1", "0x1\n", "0x1_0", "0x" + "f" * 65, 12, ChainError(1, "")],
)
def test_what_is_no_quantity_is_none(answer: Any) -> None:
    assert quantity(answer) is None


def test_a_node_of_another_chain_is_paused_for_long() -> None:
    with pytest.raises(Fault, match="on chain 5 instead of 1") as caught:
        check_chain_id("0x5", 1)
    assert caught.value.pause_seconds == 600


@pytest.mark.parametrize("answer", [None, "banana", ChainError(-32601, "no such method")])
def test_a_node_that_does_not_report_its_chain_is_not_trusted(answer: Any) -> None:
    with pytest.raises(Fault, match="did not report its chain ID"):
        check_chain_id(answer, 1)


def test_a_request_that_is_too_large_is_not_the_fault_of_the_node() -> None:
    found = fault(None, [7], 413, "")
    assert (str(found), found.is_client_error) == ("rejected the request as too large", True)
    assert not fault(None, [7], 500, "").is_client_error
