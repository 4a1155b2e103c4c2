"""Middleware: request IDs, client addresses, the access log, HTTPS, and envelopes around error pages."""

import logging
import re
import secrets
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.request import HttpHeaders
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve

from relayer_service.api import envelope
from relayer_service.api.envelope import Fault
from relayer_service.api.error_codes import HEADER, ErrorCode, code_of_status
from relayer_service.api.exceptions import error_response
from relayer_service.api.operations import extension_of
from relayer_service.api.serializers import MAX_NAME_LENGTH
from relayer_service.audit import actors
from relayer_service.net.incoming import UNREADABLE_HEADER, client_address, is_within
from relayer_service.observability import metrics, tracing
from relayer_service.observability.logs import redact, request_id

logger = logging.getLogger("relayer_service.requests")

# API responses are data, never to be run, framed or stored.
DATA_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}

GetResponse = Callable[[HttpRequest], HttpResponseBase]

# `job-5` and the like are reserved for jobs, whose changes the audit log lists under them.
SANE_ID = re.compile(r"(?!(?i:job)-)[A-Za-z0-9._:-]{1,128}", re.ASCII)
MAX_LOGGED_PATH = 2_048
PROXY_HEADERS = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST")


class Middleware:
    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response


class RequestMiddleware(Middleware):
    """Sets the request ID, the trace and the client's address; logs and counts the request."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        sent = request.META.get("HTTP_X_REQUEST_ID", "")
        # Every log line shows it, so it must not be a secret.
        identifier = sent if SANE_ID.fullmatch(sent) and redact(sent) == sent else secrets.token_hex(10)
        context = request_id.set(identifier)
        trace = tracing.traceparent.set(tracing.parse(request.META.get("HTTP_TRACEPARENT", "")))
        actor = actors.finder.set(lambda: actors.from_request(request, identifier))
        try:
            self._resolve_client(request)
            is_readable = UNREADABLE_HEADER not in request.META
            response = self.get_response(request) if is_readable else refuse_header(request)
            response["X-Request-ID"] = identifier
            self._record(request, response, time.perf_counter() - started)
            return response
        finally:
            actors.finder.reset(actor)
            tracing.traceparent.reset(trace)
            request_id.reset(context)

    @staticmethod
    def _resolve_client(request: HttpRequest) -> None:
        """Set REMOTE_ADDR to the client's address; drop the proxy headers of an untrusted peer."""
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
        # Redacted here and not as a whole line, because `redact` caches: methods and paths recur, lines do not.
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
    """Reject a request with an unreadable header: without it the request could mean something else."""
    name = HttpHeaders.parse_header_name(request.META[UNREADABLE_HEADER]) or ""
    fault = f"{name[:MAX_NAME_LENGTH]}: the value of this header must be ASCII"
    if is_api_path(request.path_info):
        return bad_request(request, Fault(fault, ErrorCode.INVALID_HEADER))
    headers = {HEADER: ErrorCode.INVALID_HEADER}
    return HttpResponse(fault, status=HTTPStatus.BAD_REQUEST, headers=headers, content_type="text/plain")


def bad_request(request: HttpRequest, fault: Fault) -> HttpResponse:
    """Return the response to a request that reaches no view, with a code in its body as its view would."""
    try:
        view = resolve(request.path_info).func
    except Resolver404:
        view = None
    action = getattr(view, "actions", {}).get((request.method or "").lower())
    with_codes = bool(extension_of(getattr(view, "cls", None), action))
    return error_response(HTTPStatus.BAD_REQUEST, faults=[fault], with_codes=with_codes)


class HttpsOnlyMiddleware(Middleware):
    """Rejects API calls over plain HTTP where HTTPS is required; Django redirects pages for people."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if settings.SECURE_SSL_REDIRECT and not request.is_secure():
            path = request.path_info
            if is_api_path(path) or (path == "/metrics" and "HTTP_AUTHORIZATION" in request.META):
                return bad_request(request, Fault("HTTPS is required", ErrorCode.HTTPS_REQUIRED))
        return self.get_response(request)


class ApiMiddleware(Middleware):
    """Wraps every error page under `/api/` in the envelope; gives every error a code.

    The exception handler does so for errors of views. These never reach it: a bad Host header, a middleware or a
    renderer that crashed, a path that no URL pattern matches.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        is_error = response.status_code >= HTTPStatus.BAD_REQUEST
        if is_error and HEADER not in response.headers:
            response.headers[HEADER] = code_of_status(response.status_code)
        if not is_api_path(request.path_info):
            return response
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        if is_error and not is_json and isinstance(response, HttpResponse):
            self._envelope(response)
        if response.headers.get("Content-Type") == "application/json":
            for name, value in DATA_HEADERS.items():
                response.headers[name] = value
        return response

    @staticmethod
    def _envelope(response: Any) -> None:
        """Replace the body and the headers that describe it."""
        for name in [name for name in response.headers if name.lower().startswith("content-")]:
            del response[name]
        response.content = envelope.failure_bytes(response.status_code)
        response["Content-Type"] = "application/json"
        response["Content-Length"] = str(len(response.content))


def is_api_path(path: str) -> bool:
    return path == "/api" or path.startswith("/api/")
