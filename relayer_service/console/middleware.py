"""Middleware for HTML pages only: API clients have no session, form or frame."""

from typing import Any

from csp.middleware import CSPMiddleware as Csp
from django.contrib.auth.middleware import AuthenticationMiddleware as Authentication
from django.contrib.messages.middleware import MessageMiddleware as Message
from django.contrib.sessions.middleware import SessionMiddleware as Session
from django.http import HttpRequest
from django.utils import timezone
from whitenoise.middleware import WhiteNoiseMiddleware as WhiteNoise

from relayer_service.console.dates import time_zone_of

API, ADMIN = "/api/v1/", "/admin/"


class PagesOnly:
    get_response: Any

    def __call__(self, request: HttpRequest) -> Any:
        if request.path_info.startswith(API):
            return self.get_response(request)
        return super().__call__(request)  # type: ignore[misc]  # of the middleware that this is mixed into


class WhiteNoiseMiddleware(PagesOnly, WhiteNoise): ...


class CSPMiddleware(PagesOnly, Csp):
    """The policy of the settings; on the docs pages, without the exceptions for the admin's theme."""

    def get_policy_parts(self, request: HttpRequest, response: Any, report_only: bool = False) -> Any:
        parts = super().get_policy_parts(request, response, report_only)
        if not report_only and request.path_info.startswith("/api/"):
            parts.replace = {"script-src": ["'self'"]}
        return parts


class SessionMiddleware(PagesOnly, Session): ...


class AuthenticationMiddleware(PagesOnly, Authentication): ...


class TimeZoneMiddleware:
    """Shows times on pages of the admin in the time zone of their user."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        if not request.path_info.startswith(ADMIN):
            return self.get_response(request)
        with timezone.override(time_zone_of(request.user)):
            return self.get_response(request)


class MessageMiddleware(PagesOnly, Message): ...
