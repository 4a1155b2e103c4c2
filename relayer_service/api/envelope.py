"""Response bodies, as pure functions: the success envelope (contract, section 2.1) and errors (section 7)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from django.conf import settings


@dataclass(frozen=True)
class WithLogs:
    """Data with the log messages of its envelope."""

    data: Any
    logs: list[str]


@dataclass(frozen=True)
class Page(WithLogs):
    pagination: dict[str, Any]


def success(data: Any) -> dict[str, Any]:
    content = data if isinstance(data, WithLogs) else WithLogs(data, [])
    metadata = {"logs": log_entries(content.logs), "traces": []}
    pagination = {"pagination": content.pagination} if isinstance(content, Page) else {}
    return {"data": content.data, "error": "", "metadata": metadata, **pagination, "success": True}


def failure(message: str, *, faults: list[str] | None = None) -> dict[str, Any]:
    """Return the body of an error; `faults` describe a bad request."""
    body: dict[str, Any] = {"data": None, "message": message, "success": False}
    if faults and settings.ERROR_DETAILS:
        body["metadata"] = {"logs": log_entries(faults)}
    return body


def failure_bytes(status: int) -> bytes:
    return orjson.dumps(failure(HTTPStatus(status).phrase))


def log_entries(messages: list[str]) -> list[dict[str, str]]:
    return [{"level": "log", "message": message} for message in messages]
