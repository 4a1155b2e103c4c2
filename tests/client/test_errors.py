"""Errors of the service become exceptions with their data, one kind each."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest

from relayer_client import Transaction, errors
from relayer_client.encoding import decode
from relayer_client.outbox.models import KeyReused
from relayer_client.webhooks import InvalidWebhook
from relayer_service.api.error_codes import ErrorCode
from tests.client.examples import FAILED, TRANSACTION
from tests.client.scripted_server import DROP, Answer, calling, ok, refused
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
    for code, kind in errors.BY_CODE.items():
        assert any(issubclass(kind, errors.BY_STATUS[status]) for status in documented()[code])
    assert type(raised(refused(409, "a_new_code"))) is errors.Conflict
    assert raised(refused(429, "queue_full", Retry_After="3600")).retry_after == 3600.0


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
    faults = "config.key: this field is required; The body is not valid JSON: it ends early"
    assert str(error) == f"Request 5e0f: Bad Request (400, required): {faults}"


def test_every_code_of_json_rpc_is_a_kind() -> None:
    table = (PROJECT / "docs/rpc.md").read_text()
    assert {f"`{code}`" for code in errors.BY_RPC_CODE} == set(re.findall(r"^\| (`-\d+`) \|", table, re.M))


def test_a_failed_json_rpc_call_raises_its_kind() -> None:
    error = {"code": -32001, "message": "Token not supported", "description": "Use ETH."}
    answer = Answer(200, {"jsonrpc": "2.0", "id": "1", "error": error})
    with calling(answer, DROP, answer) as (server, client):
        for is_doubtful in (False, True):
            with pytest.raises(errors.TokenNotSupported) as found:
                client.relayer("r").fee_estimate(fee_token="X", network="evm", transaction=b"\x02")
            assert found.value.may_have_been_carried_out == is_doubtful
    assert [found.value.code, found.value.message, found.value.description] == [*error.values()]
    assert found.value.request_id == server.requests[-1].headers["x-request-id"]


def test_a_service_that_is_not_ready_is_an_answer() -> None:
    body = {"status": "not ready", "parts": {"database": "ok", "worker": "failed"}}
    with calling(Answer(503, body)) as (_server, client):
        readiness = client.readiness()
    assert (readiness.is_ready, readiness.parts, readiness.notes) == (False, body["parts"], None)


def subclasses(kind: type[errors.RelayerClientError]) -> list[type[errors.RelayerClientError]]:
    return [kind, *(each for child in kind.__subclasses__() for each in subclasses(child))]


def example(kind: type[Any]) -> errors.RelayerClientError:
    found: errors.RelayerClientError
    if issubclass(kind, errors.ApiError):
        fault = errors.Fault(path="to", message="wrong", code="invalid")
        found = kind(status=400, code="invalid", message="No", faults=(fault,), request_id="5e", idempotency_key="k")
    elif issubclass(kind, errors.RpcError):
        found = kind(-32001, "Token not supported", "Use ETH.")
    elif issubclass(kind, errors.WaitTimeout):
        found = kind(TRANSACTION["id"], "mined", decode(Transaction, TRANSACTION))
    elif issubclass(kind, errors.JobTimeout):
        found = kind("17", None)
    elif issubclass(kind, errors.TransactionUnsuccessful):
        found = kind(decode(Transaction, FAILED))
    elif issubclass(kind, errors.RequestFailed):
        found = kind("Lost.", "a-key")
    else:
        found = kind("Failed.")
    found.add_note("A note.")
    return found


def test_an_error_can_be_pickled_and_copied() -> None:
    for kind in (*subclasses(errors.RelayerClientError), InvalidWebhook, KeyReused):
        error = example(kind)
        pickled = [pickle.loads(pickle.dumps(error, each)) for each in range(pickle.HIGHEST_PROTOCOL + 1)]
        for other in [*pickled, copy.copy(error), copy.deepcopy(error)]:
            assert (type(other), str(other), other.args, vars(other)) == (kind, str(error), error.args, vars(error))


def test_new_fields_and_values_are_accepted() -> None:
    counts = dict.fromkeys(("total", "done", "skipped", "failed"), 1)
    job = {"id": "17", "kind": "a_new_kind", "state": "waiting", "failures": [], **counts}
    job |= {"created_at": "2026-11-16T12:00:00.000000Z", "a_new_field": {"nested": True}}
    with calling(ok(job)) as (_server, client):
        kind: str = client.get_job("17").kind
    assert kind == "a_new_kind"
