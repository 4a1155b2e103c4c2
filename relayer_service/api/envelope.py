"""Response bodies, as pure functions: the success envelope (contract, section 2.1) and errors (section 7)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, NamedTuple

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


def with_logs(data: Any, logs: list[str]) -> WithLogs:
    """Return data with these log messages besides those that it has."""
    return replace(data, logs=[*data.logs, *logs]) if isinstance(data, WithLogs) else WithLogs(data, logs)


def success(data: Any) -> dict[str, Any]:
    content = data if isinstance(data, WithLogs) else WithLogs(data, [])
    metadata = {"logs": log_entries(content.logs), "traces": []}
    pagination = {"pagination": content.pagination} if isinstance(content, Page) else {}
    return {"data": content.data, "error": "", "metadata": metadata, **pagination, "success": True}


class Fault(NamedTuple):
    """What is wrong with a request, and the code of it (`error_codes.py`)."""

    message: str
    code: str


def failure(message: str, *, faults: Sequence[Fault] = (), with_codes: bool = False) -> dict[str, Any]:
    """Return the body of an error; `faults` describe a bad request, with their codes outside the contract."""
    body: dict[str, Any] = {"data": None, "message": message, "success": False}
    if faults and settings.ERROR_DETAILS:
        logs = log_entries([fault.message for fault in faults])
        if with_codes:
            logs = [{**entry, "code": fault.code} for entry, fault in zip(logs, faults, strict=True)]
        body["metadata"] = {"logs": logs}
    return body


def failure_bytes(status: int) -> bytes:
    return orjson.dumps(failure(HTTPStatus(status).phrase))


def log_entries(messages: list[str]) -> list[dict[str, str]]:
    return [{"level": "log", "message": message} for message in messages]
