"""The bodies of the contract's section 2.1 and 7, as pure functions."""

from http import HTTPStatus
from typing import Any

import orjson
from django.conf import settings


class Envelope(dict[str, Any]):
    """A finished body, which the renderer leaves as it is."""


def success(data: Any, *, logs: list[str] | None = None, pagination: dict[str, Any] | None = None) -> Envelope:
    body = Envelope(data=data, error="", metadata={"logs": log_entries(logs or []), "traces": []})
    if pagination is not None:
        body["pagination"] = pagination
    body["success"] = True
    return body


def failure(message: str, *, faults: list[str] | None = None) -> Envelope:
    """Build an error body; `faults` tell the caller of a bad request what to mend."""
    body = Envelope(data=None, message=message, success=False)
    if faults and settings.ERROR_DETAILS:
        body["metadata"] = {"logs": log_entries(faults)}
    return body


def failure_bytes(status: int) -> bytes:
    """Build the error body that has no more to say than its status."""
    return orjson.dumps(failure(HTTPStatus(status).phrase))


def log_entries(messages: list[str]) -> list[dict[str, str]]:
    return [{"level": "log", "message": message} for message in messages]


def exact_integer(digits: str) -> int | orjson.Fragment:
    """Give the number that an ASCII string of digits writes, in a form that JSON keeps exact at any length."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) < 19 else orjson.Fragment(digits)
