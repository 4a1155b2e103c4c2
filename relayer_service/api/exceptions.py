"""Exceptions of the API, and the handlers that turn every exception into an error envelope."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from itertools import islice
from typing import Any

import orjson
from django.core.exceptions import PermissionDenied, SuspiciousOperation, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.views import defaults
from rest_framework import exceptions
from rest_framework.fields import get_error_detail

from relayer_service.api import envelope
from relayer_service.api.envelope import Fault
from relayer_service.api.error_codes import HEADER, ErrorCode, code_of_status, listed
from relayer_service.api.operations import extension_of
from relayer_service.background.shares import RETRY_AFTER_SECONDS, Busy
from relayer_service.database.access import is_unavailable
from relayer_service.database.ttl_cache import TTLCache

logger = logging.getLogger(__name__)

# API name of each column.
API_NAMES = {"identifier": "id"}
# At most this many faults are reported for one request.
MAX_FAULTS = 50
MAX_FAULT_LENGTH = 200
BUSY_RETRY_AFTER_SECONDS = 1
BUSY = "All threads for calls to nodes and signers are in use"
LOGGED_SECONDS = 60
_logged: TTLCache[str, bool] = TTLCache(100)


class Conflict(exceptions.APIException):
    status_code = HTTPStatus.CONFLICT
    default_code = ErrorCode.CONFLICT


class Forbidden(exceptions.PermissionDenied):
    """The state of a resource forbids the request, whatever the token's scopes; the message names the state."""


class TooManyRequests(exceptions.APIException):
    """A limit other than the token's rate is reached; `wait` is the value of Retry-After, in seconds."""

    status_code = HTTPStatus.TOO_MANY_REQUESTS
    default_code = ErrorCode.QUEUE_FULL

    def __init__(self, message: str, wait: int, code: ErrorCode | None = None) -> None:
        super().__init__(message, code)
        self.wait = wait


class ServiceUnavailable(exceptions.APIException):
    """Something that the service calls has failed; the message names it, without a foreign text."""

    status_code = HTTPStatus.SERVICE_UNAVAILABLE
    default_code = ErrorCode.UNAVAILABLE
    wait = RETRY_AFTER_SECONDS


class NotFound(exceptions.NotFound):
    default_detail = HTTPStatus.NOT_FOUND.phrase


class UnknownPath(NotFound):
    default_code = ErrorCode.UNKNOWN_PATH


class MethodNotAllowed(exceptions.MethodNotAllowed):
    """A method that a resource cannot have; the message says what to do instead."""


# The contract has no 415: an unsupported media type is a bad request.
BAD_REQUESTS = (
    exceptions.ParseError,
    exceptions.UnsupportedMediaType,
    exceptions.ValidationError,
    SuspiciousOperation,
)
# Exceptions whose own text is the contract's message; other responses have the phrase of their status.
OWN_MESSAGE = (Conflict, Forbidden, MethodNotAllowed, NotFound, ServiceUnavailable, TooManyRequests)


@contextmanager
def refusals() -> Iterator[None]:
    """Convert the `ValidationError` of a model rule to REST framework's, with API names."""
    try:
        yield
    except ValidationError as error:
        found: Any = get_error_detail(error)
        faults = {API_NAMES.get(name, name): details for name, details in found.items()}
        raise exceptions.ValidationError(faults) from None


def handle(exc: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """Return the response to an exception of a view; None if it is unexpected, so that Django logs it."""
    if isinstance(exc, BAD_REQUESTS):
        with_codes = is_of_extension(context.get("view"))
        return error_response(HTTPStatus.BAD_REQUEST, faults=faults(exc), with_codes=with_codes)
    if isinstance(exc, Http404):
        return error_response(HTTPStatus.NOT_FOUND, code=ErrorCode.NOT_FOUND)
    if isinstance(exc, PermissionDenied):
        return error_response(HTTPStatus.FORBIDDEN)
    if isinstance(exc, Busy):
        headers = {"Retry-After": str(BUSY_RETRY_AFTER_SECONDS)}
        return error_response(HTTPStatus.TOO_MANY_REQUESTS, code=ErrorCode.BUSY, headers=headers)
    if not isinstance(exc, exceptions.APIException):
        return None
    headers = {}
    if auth_header := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = auth_header
    if wait := getattr(exc, "wait", None):
        headers["Retry-After"] = str(wait)
    message = str(exc.detail) if isinstance(exc, OWN_MESSAGE) else None
    status = HTTPStatus(exc.status_code)
    code = listed(getattr(exc.detail, "code", None), code_of_status(status))
    return error_response(status, message, code=code, headers=headers)


def is_of_extension(view: Any) -> bool:
    """Return whether the action of a view is not in the contract."""
    return bool(extension_of(view, getattr(view, "action", None)))


def server_error(request: HttpRequest) -> HttpResponse:
    """Return 503 if the same request may succeed later, else 500; `ApiMiddleware` adds the envelope."""
    error = sys.exception()
    if not isinstance(error, Busy) and not is_unavailable(error):
        return defaults.server_error(request)
    reason, _, _ = str(error).partition("\n")
    log_once(BUSY if isinstance(error, Busy) else f"The database is unavailable: {reason}")
    status = HTTPStatus.SERVICE_UNAVAILABLE
    code = ErrorCode.BUSY if isinstance(error, Busy) else ErrorCode.DATABASE_UNAVAILABLE
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS), HEADER: code}
    response = HttpResponse(status.phrase, status=status, headers=headers, content_type="text/plain")
    # Django would log a traceback for each request, which does not help when the database is full or down.
    response._has_been_logged = True  # type: ignore[attr-defined]  # set by Django's `log_response`
    return response


def log_once(problem: str) -> None:
    """Log a problem at most once a minute: the access log has the status of each request."""
    if _logged.get(problem) is None:
        _logged.set(problem, True, LOGGED_SECONDS)
        logger.error("%s", problem)


def error_response(
    status: HTTPStatus,
    message: str | None = None,
    *,
    code: ErrorCode | None = None,
    faults: Sequence[Fault] = (),
    with_codes: bool = False,
    headers: dict[str, str] | None = None,
) -> HttpResponse:
    """Return a rendered response: it is JSON whatever renderers the view has.

    The code defaults to the first fault's, or to the status's.
    """
    body = orjson.dumps(envelope.failure(message or status.phrase, faults=faults, with_codes=with_codes))
    shown = code or (faults[0].code if faults else code_of_status(status))
    headers = {**(headers or {}), HEADER: shown}
    return HttpResponse(body, status=status, headers=headers, content_type="application/json")


def faults(exc: Exception) -> list[Fault]:
    if isinstance(exc, exceptions.UnsupportedMediaType):
        return [Fault("the content type must be application/json", ErrorCode.UNSUPPORTED_MEDIA_TYPE)]
    if isinstance(exc, exceptions.APIException):
        return [fault(path, text) for path, text in islice(flatten(exc.detail), MAX_FAULTS)]
    return []


def fault(path: str, text: str) -> Fault:
    code = listed(getattr(text, "code", None), ErrorCode.INVALID)
    return Fault((f"{path}: {text}" if path else text)[:MAX_FAULT_LENGTH], code)


def flatten(detail: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each fault of a validation error, which may have a code, with the path of its field."""
    if isinstance(detail, dict):
        for name, value in detail.items():
            if name == "non_field_errors":
                yield from flatten(value, path)
            elif isinstance(name, int):
                yield from flatten(value, f"{path}[{name}]")
            else:
                yield from flatten(value, f"{path}.{name}" if path else name)
    elif isinstance(detail, list):
        for value in detail:
            yield from flatten(value, path)
    else:
        yield path, detail
