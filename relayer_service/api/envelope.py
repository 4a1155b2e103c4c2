"""The bodies of answers, as pure functions: the envelope of a success (contract, section 2.1), and errors (7)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from django.conf import settings


@dataclass(frozen=True)
class Page:
    """A page of a list, with what its envelope says beside it."""

    data: list[Any]
    pagination: dict[str, Any]
    logs: list[str]


@dataclass(frozen=True)
class WithLogs:
    """A resource, with what its envelope has to say of it."""

    data: Any
    logs: list[str]


def success(data: Any) -> dict[str, Any]:
    """Return the body of a success; that of a page has its `pagination`."""
    if isinstance(data, Page):
        metadata = {"logs": log_entries(data.logs), "traces": []}
        return {"data": data.data, "error": "", "metadata": metadata, "pagination": data.pagination, "success": True}
    answer = data if isinstance(data, WithLogs) else WithLogs(data, [])
    metadata = {"logs": log_entries(answer.logs), "traces": []}
    return {"data": answer.data, "error": "", "metadata": metadata, "success": True}


def failure(message: str, *, faults: list[str] | None = None) -> dict[str, Any]:
    """Return the body of an error; `faults` say what is wrong with a bad request."""
    body: dict[str, Any] = {"data": None, "message": message, "success": False}
    if faults and settings.ERROR_DETAILS:
        body["metadata"] = {"logs": log_entries(faults)}
    return body


def failure_bytes(status: int) -> bytes:
    """Return the error body that has no more to say than its status."""
    return orjson.dumps(failure(HTTPStatus(status).phrase))


def log_entries(messages: list[str]) -> list[dict[str, str]]:
    return [{"level": "log", "message": message} for message in messages]
