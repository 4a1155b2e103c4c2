"""Errors of the service become exceptions with their data, one kind each."""

from __future__ import annotations

import re
from typing import Any

import pytest

from relayer_client import errors
from relayer_service.api.error_codes import ErrorCode
from tests.client.scripted_server import Answer, calling, ok, refused
from tests.servers import PROJECT

# Statuses that are no kind of their own.
GENERAL = {405}


def documented() -> dict[str, set[int]]:
    """Return the codes of docs/errors.md with their statuses."""
    rows = re.findall(r"^\| `(\w+)` \| ([\d, ]+) \|", (PROJECT / "docs/errors.md").read_text(), re.M)
    return {code: {int(status) for status in statuses.split(", ")} for code, statuses in rows}


def raised(answer: Answer) -> Any:
    with calling(answer) as (_server, client), pytest.raises(errors.ApiError) as found:
        client.delete_signer("s")
    return found.value


def test_every_documented_code_raises_a_kind_of_its_status() -> None:
    assert set(documented()) == {str(code) for code in ErrorCode}
    assert set(errors.BY_CODE) <= set(documented())
    for code, statuses in documented().items():
        for status in statuses - GENERAL:
            error = errors.api_error(status, {"error-code": code}, {}, None)
            assert (error.status, error.code) == (status, code)
            assert type(error) is errors.BY_CODE.get(code, errors.BY_STATUS[status])


@pytest.mark.parametrize("code", errors.BY_CODE)
def test_the_kind_of_a_code_is_one_of_its_status(code: str) -> None:
    assert any(issubclass(errors.BY_CODE[code], errors.BY_STATUS[status]) for status in documented()[code])


def test_an_unknown_code_raises_the_kind_of_its_status() -> None:
    assert type(raised(refused(409, "a_new_code"))) is errors.Conflict


def test_a_bad_request_has_its_faults() -> None:
    logs = [
        {"level": "log", "message": "config.key: this field is required", "code": "required"},
        {"level": "log", "message": "The body is not valid JSON: it ends early"},
    ]
    body = {"data": None, "message": "Bad Request", "success": False, "metadata": {"logs": logs}}
    error = raised(Answer(400, body, {"Error-Code": "required", "X-Request-ID": "5e0f"}))
    assert type(error) is errors.BadRequest
    assert error.faults == (
        errors.Fault(path="config.key", message="this field is required", code="required"),
        errors.Fault(path="", message="The body is not valid JSON: it ends early", code=None),
    )
    assert (error.message, error.request_id) == ("Bad Request", "5e0f")
    assert str(error) == (
        "Bad Request (400, required): config.key: this field is required; The body is not valid JSON: it ends early"
    )


def test_the_time_to_wait_is_part_of_the_error() -> None:
    assert raised(refused(429, "queue_full", Retry_After="3600")).retry_after == 3600.0


def test_every_code_of_json_rpc_is_a_kind() -> None:
    table = (PROJECT / "docs/rpc.md").read_text()
    assert {f"`{code}`" for code in errors.BY_RPC_CODE} == set(re.findall(r"^\| (`-\d+`) \|", table, re.M))


def test_a_failed_json_rpc_call_raises_its_kind() -> None:
    error = {"code": -32001, "message": "Token not supported", "description": "Use ETH."}
    answer = Answer(200, {"jsonrpc": "2.0", "id": "1", "error": error})
    with calling(answer) as (_server, client), pytest.raises(errors.TokenNotSupported) as found:
        client.relayer("r").fee_estimate(fee_token="X", network="evm", transaction=b"\x02")
    assert (found.value.code, found.value.message, found.value.description) == (
        -32001,
        "Token not supported",
        "Use ETH.",
    )


def test_a_service_that_is_not_ready_is_an_answer() -> None:
    body = {"status": "not ready", "parts": {"database": "ok", "worker": "failed"}}
    with calling(Answer(503, body)) as (_server, client):
        readiness = client.readiness()
    assert (readiness.is_ready, readiness.parts, readiness.notes) == (False, body["parts"], None)


def test_new_fields_and_values_are_accepted() -> None:
    job = {
        "id": "17",
        "kind": "a_new_kind",
        "state": "waiting",
        "total": 1,
        "done": 0,
        "skipped": 0,
        "failed": 0,
        "failures": [],
        "created_at": "2026-11-16T12:00:00.000000Z",
        "a_new_field": {"nested": True},
    }
    with calling(ok(job)) as (_server, client):
        kind: str = client.get_job("17").kind
    assert kind == "a_new_kind"
