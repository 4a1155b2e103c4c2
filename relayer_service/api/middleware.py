"""What happens around every request, whatever answers it."""

import logging
import re
import secrets
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeGuard

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.request import HttpHeaders
from django.http.response import HttpResponseBase

from relayer_service.api import envelope
from relayer_service.api.exceptions import error_response
from relayer_service.api.serializers import MAX_NAME_LENGTH
from relayer_service.audit import actors
from relayer_service.net.incoming import UNREADABLE_HEADER, client_address, is_within
from relayer_service.observability import metrics
from relayer_service.observability.logs import redact, request_id

logger = logging.getLogger("relayer_service.requests")

# Answers to programs are data: nothing in them is to be run, framed or stored.
DATA_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}

GetResponse = Callable[[HttpRequest], HttpResponseBase]

# Ids like `job-5` are those of jobs, under which the audit log lists what they have changed.
SANE_ID = re.compile(r"(?!(?i:job)-)[A-Za-z0-9._:-]{1,128}", re.ASCII)
MAX_LOGGED_PATH = 2_048
PROXY_HEADERS = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST")


class Middleware:
    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response


class RequestMiddleware(Middleware):
    """Sets the request's id and its client's true address; logs and counts it when it is answered."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        sent = request.META.get("HTTP_X_REQUEST_ID", "")
        # Every line of the request shows it, so that it must be no secret.
        identifier = sent if SANE_ID.fullmatch(sent) and redact(sent) == sent else secrets.token_hex(10)
        context = request_id.set(identifier)
        actor = actors.finder.set(lambda: actors.of_request(request, identifier))
        try:
            self._resolve_client(request)
            is_readable = UNREADABLE_HEADER not in request.META
            response = self.get_response(request) if is_readable else refuse_header(request)
            response["X-Request-ID"] = identifier
            self._record(request, response, time.perf_counter() - started)
            return response
        finally:
            actors.finder.reset(actor)
            request_id.reset(context)

    @staticmethod
    def _resolve_client(request: HttpRequest) -> None:
        """Put the client's address into REMOTE_ADDR and drop the headers in which an untrusted peer names another."""
        peer = request.META.get("REMOTE_ADDR", "")
        if settings.TRUSTED_PROXIES and is_within(peer, settings.TRUSTED_PROXIES):
            forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "")
            request.META["REMOTE_ADDR"] = client_address(peer, forwarded, settings.TRUSTED_PROXIES)
        else:
            for header in PROXY_HEADERS:
                request.META.pop(header, None)

    @staticmethod
    def _record(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
        match = request.resolver_match
        route = (match.view_name or match.route) if match else "unmatched"
        metrics.observe_request(request.method or "", route, response.status_code, seconds)
        milliseconds = round(seconds * 1000, 1)
        # What the client has chosen is redacted here: these texts come again and again, the whole line does not.
        method, path = redact(request.method or "", MAX_LOGGED_PATH), redact(request.path, MAX_LOGGED_PATH)
        fields = {
            "method": method,
            "path": path,
            "status": response.status_code,
            "milliseconds": milliseconds,
            "client": redact(request.META.get("REMOTE_ADDR", "")) or "unknown",
        }
        if token := getattr(request, "access_token_key", None):
            fields["token"] = token
        line = (method, path, response.status_code, milliseconds)
        logger.info("%s %s %s %.1f ms", *line, extra={"fields": fields, "redacted": True})


def refuse_header(request: HttpRequest) -> HttpResponse:
    """Refuse a request with a header that cannot be read: without it the request could mean something else."""
    name = HttpHeaders.parse_header_name(request.META[UNREADABLE_HEADER]) or ""
    fault = f"{name[:MAX_NAME_LENGTH]}: the value of this header must be ASCII"
    if is_api_path(request.path_info):
        return error_response(HTTPStatus.BAD_REQUEST, faults=[fault])
    return HttpResponse(fault, status=HTTPStatus.BAD_REQUEST, content_type="text/plain")


class HttpsOnlyMiddleware(Middleware):
    """Refuses a call with a token over plain HTTP where HTTPS is required; pages for people are redirected."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if settings.SECURE_SSL_REDIRECT and not request.is_secure() and self._needs_https(request):
            return error_response(HTTPStatus.BAD_REQUEST, faults=["HTTPS is required"])
        return self.get_response(request)

    @staticmethod
    def _needs_https(request: HttpRequest) -> bool:
        """Return whether a request is an API call, or carries a credential where METRICS_ALLOW needs none."""
        path = request.path_info
        return is_api_path(path) or (path == "/metrics" and "HTTP_AUTHORIZATION" in request.META)


class ApiMiddleware(Middleware):
    """Makes every answer under `/api/` one of the contract's, whatever code made it.

    The exception handler envelopes errors of views; this is for what never reaches it: a bad Host header, a
    middleware or a renderer that crashed, a path that no URL pattern matches.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not is_api_path(request.path_info):
            return response
        if self._is_error_page(response):
            self._envelope(response)
        if response.headers.get("Content-Type") == "application/json":
            for name, value in DATA_HEADERS.items():
                response.headers[name] = value
        return response

    @staticmethod
    def _is_error_page(response: HttpResponseBase) -> TypeGuard[HttpResponse]:
        return (
            response.status_code >= HTTPStatus.BAD_REQUEST
            and isinstance(response, HttpResponse)
            and not response.headers.get("Content-Type", "").startswith("application/json")
        )

    @staticmethod
    def _envelope(response: HttpResponse) -> None:
        """Replace the body; the other headers are as true of the new one as of the page before."""
        for name in [name for name in response.headers if name.lower().startswith("content-")]:
            del response[name]
        response.content = envelope.failure_bytes(response.status_code)
        response["Content-Type"] = "application/json"
        response["Content-Length"] = str(len(response.content))


def is_api_path(path: str) -> bool:
    return path == "/api" or path.startswith("/api/")
