"""Errors as data: each exception that leaves a view becomes an error envelope."""

from http import HTTPStatus
from typing import Any

import orjson
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpResponse
from rest_framework import exceptions

from relayer_service import envelope


class Conflict(exceptions.APIException):
    status_code = HTTPStatus.CONFLICT
    default_code = "conflict"


class NotFound(exceptions.NotFound):
    """A resource that does not exist, with the contract's message for it."""

    default_detail = HTTPStatus.NOT_FOUND.phrase


# A body of a thousand wrong fields is answered with the first of them.
MOST_FAULTS = 50
LONGEST_FAULT = 200

# Statuses that the contract does not know are bad requests to it.
BAD_REQUESTS = (
    exceptions.ParseError,
    exceptions.UnsupportedMediaType,
    exceptions.ValidationError,
    SuspiciousOperation,
)
# Exceptions whose own text is the contract's message; the others answer with their status' phrase.
OWN_MESSAGE = (Conflict, NotFound)


def handle(exc: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """Answer what a view raised; what nobody expected goes on to Django, which logs it and answers 500."""
    if isinstance(exc, BAD_REQUESTS):
        return error_response(HTTPStatus.BAD_REQUEST, faults=faults(exc))
    if isinstance(exc, Http404):
        return error_response(HTTPStatus.NOT_FOUND)
    if isinstance(exc, PermissionDenied):
        return error_response(HTTPStatus.FORBIDDEN)
    if not isinstance(exc, exceptions.APIException):
        return None
    headers = {}
    if auth_header := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = auth_header
    if wait := getattr(exc, "wait", None):
        headers["Retry-After"] = str(wait)
    message = str(exc.detail) if isinstance(exc, OWN_MESSAGE) else None
    return error_response(HTTPStatus(exc.status_code), message, headers=headers)


def error_response(
    status: HTTPStatus,
    message: str | None = None,
    *,
    faults: list[str] | None = None,
    headers: dict[str, str] | None = None,
) -> HttpResponse:
    """Finish the answer here, so that it is JSON whatever renderers the view has."""
    body = orjson.dumps(envelope.failure(message or status.phrase, faults=faults))
    return HttpResponse(body, status=status, headers=headers, content_type="application/json")


def faults(exc: Exception) -> list[str]:
    """Say what was wrong with a request, one line a fault, each with the path of its field."""
    if isinstance(exc, exceptions.UnsupportedMediaType):
        return ["the content type must be application/json"]
    if isinstance(exc, exceptions.APIException):
        return [line[:LONGEST_FAULT] for line in _lines(exc.detail, "")[:MOST_FAULTS]]
    return []


def _lines(detail: Any, path: str) -> list[str]:
    if isinstance(detail, dict):
        lines = []
        for name, value in detail.items():
            # Faults of the object as a whole belong to the object.
            inner = path if name == "non_field_errors" else f"{path}.{name}" if path else str(name)
            lines += _lines(value, inner)
        return lines
    if isinstance(detail, list):
        lines = []
        for index, value in enumerate(detail):
            lines += _lines(value, f"{path}[{index}]" if isinstance(value, dict) else path)
        return lines
    return [f"{path}: {detail}" if path else str(detail)]
