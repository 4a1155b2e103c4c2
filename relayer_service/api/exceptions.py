"""Errors as data: each exception that leaves a view becomes an error envelope."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from itertools import islice
from typing import Any

import orjson
from django.core.exceptions import PermissionDenied, SuspiciousOperation, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.views import defaults
from rest_framework import exceptions

from relayer_service.api import envelope
from relayer_service.background.shares import RETRY_AFTER_SECONDS, Busy
from relayer_service.storage.databases import is_unavailable
from relayer_service.storage.ttl_cache import TTLCache

logger = logging.getLogger(__name__)

# What callers call a column.
NAMES = {"identifier": "id"}


class Conflict(exceptions.APIException):
    status_code = HTTPStatus.CONFLICT
    default_code = "conflict"


class ServiceUnavailable(exceptions.APIException):
    """What the answer depends on does not answer now."""

    status_code = HTTPStatus.SERVICE_UNAVAILABLE
    default_code = "unavailable"


class NotFound(exceptions.NotFound):
    """A resource that does not exist, with the contract's message for it."""

    default_detail = HTTPStatus.NOT_FOUND.phrase


@contextmanager
def refusals() -> Iterator[None]:
    """Turn the faults that a rule of a model raises into a bad request, in which the column `identifier` is `id`."""
    try:
        yield
    except ValidationError as error:
        faults = {NAMES.get(name, name): texts for name, texts in error.message_dict.items()}
        raise exceptions.ValidationError(faults) from None


# A body of a thousand wrong fields is answered with the first of them.
MAX_FAULTS = 50
MAX_FAULT_LENGTH = 200
BUSY_RETRY_AFTER_SECONDS = 1
BUSY = "All threads that may wait for nodes and signers are in use"
LOGGED_SECONDS = 60
_logged: TTLCache[str, bool] = TTLCache(100)

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
    if isinstance(exc, Busy):
        headers = {"Retry-After": str(BUSY_RETRY_AFTER_SECONDS)}
        return error_response(HTTPStatus.TOO_MANY_REQUESTS, headers=headers)
    if not isinstance(exc, exceptions.APIException):
        return None
    headers = {}
    if auth_header := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = auth_header
    if wait := getattr(exc, "wait", None):
        headers["Retry-After"] = str(wait)
    message = str(exc.detail) if isinstance(exc, OWN_MESSAGE) else None
    return error_response(HTTPStatus(exc.status_code), message, headers=headers)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer what nobody expected, wherever it was raised: 503 if the same request may succeed later, else 500.

    Django logs it. `ApiMiddleware` envelopes the answer where it is the API's.
    """
    error = sys.exception()
    if not isinstance(error, Busy) and not is_unavailable(error):
        return defaults.server_error(request)
    reason, _, _ = str(error).partition("\n")
    log_once(BUSY if isinstance(error, Busy) else f"The database cannot answer: {reason}")
    status = HTTPStatus.SERVICE_UNAVAILABLE
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
    response = HttpResponse(status.phrase, status=status, headers=headers, content_type="text/plain")
    # Django would add a traceback for each request, which says nothing about a database that is full or away.
    response._has_been_logged = True  # type: ignore[attr-defined]  # what Django sets after it has logged one
    return response


def log_once(problem: str) -> None:
    """Log why requests fail, once a minute: the access line of each has its status."""
    if _logged.get(problem) is None:
        _logged.set(problem, True, LOGGED_SECONDS)
        logger.error("%s", problem)


def error_response(
    status: HTTPStatus,
    message: str | None = None,
    *,
    faults: list[str] | None = None,
    headers: dict[str, str] | None = None,
) -> HttpResponse:
    """Return a finished answer, so that it is JSON whatever renderers the view has."""
    body = orjson.dumps(envelope.failure(message or status.phrase, faults=faults))
    return HttpResponse(body, status=status, headers=headers, content_type="application/json")


def faults(exc: Exception) -> list[str]:
    """Return what was wrong with a request, one line a fault, each with the path of its field."""
    if isinstance(exc, exceptions.UnsupportedMediaType):
        return ["the content type must be application/json"]
    if isinstance(exc, exceptions.APIException):
        found = islice(flatten(exc.detail), MAX_FAULTS)
        return [(f"{path}: {text}" if path else text)[:MAX_FAULT_LENGTH] for path, text in found]
    return []


def flatten(detail: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each fault of a validation error with the path of its field."""
    if isinstance(detail, dict):
        for name, value in detail.items():
            if name == "non_field_errors":
                # Faults of the object as a whole.
                yield from flatten(value, path)
            elif isinstance(name, int):
                yield from flatten(value, f"{path}[{name}]")
            else:
                yield from flatten(value, f"{path}.{name}" if path else name)
    elif isinstance(detail, list):
        for value in detail:
            yield from flatten(value, path)
    else:
        yield path, str(detail)
