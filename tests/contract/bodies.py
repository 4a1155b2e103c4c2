"""The whole bodies of the contract's sections 2.1, 4.5 and 7."""

from typing import Any

from relayer_service.api.error_codes import ErrorCode


def success(data: Any, *, logs: list[str] | None = None) -> dict[str, Any]:
    entries = [{"level": "log", "message": message} for message in logs or []]
    return {"data": data, "error": "", "metadata": {"logs": entries, "traces": []}, "success": True}


def page(
    data: list[Any], *, current_page: int = 1, per_page: int = 10, total_items: int, logs: list[str] | None = None
) -> dict[str, Any]:
    pagination = {"current_page": current_page, "per_page": per_page, "total_items": total_items}
    return success(data, logs=logs) | {"pagination": pagination}


def failure(message: str) -> dict[str, Any]:
    return {"data": None, "message": message, "success": False}


def bad_request(*faults: str, code: str = "") -> dict[str, Any]:
    """The faults of a request; on operations of extensions each has a code."""
    logs = [{"level": "log", "message": fault} | ({"code": code} if code else {}) for fault in faults]
    return failure("Bad Request") | {"metadata": {"logs": logs}}


def uncoded(body: dict[str, Any]) -> dict[str, Any]:
    """A bad request on an operation of an extension without the code that each of its faults has."""
    logs = [{name: value for name, value in entry.items() if name != "code"} for entry in body["metadata"]["logs"]]
    assert {entry["code"] for entry in body["metadata"]["logs"]} <= {*ErrorCode}
    return body | {"metadata": {"logs": logs}}


def rpc_result(result: dict[str, Any], *, identifier: Any = "1") -> dict[str, Any]:
    """A JSON-RPC answer of section 4.5, which has no envelope."""
    return {"jsonrpc": "2.0", "id": identifier, "result": result}


def rpc_error(code: int, message: str, description: str, *, identifier: Any = "1") -> dict[str, Any]:
    error = {"code": code, "message": message, "description": description}
    return {"jsonrpc": "2.0", "id": identifier, "error": error}
