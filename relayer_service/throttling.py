"""Rate limits, counted by django-ratelimit in the shared cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.http import HttpRequest
from django_ratelimit.core import get_usage
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from relayer_service.client_address import bucket

if TYPE_CHECKING:
    # The framework loads this module while it loads its views.
    from rest_framework.views import APIView


class TokenRateThrottle(BaseThrottle):
    """Count a view's requests for each token, under the rate that the setting named in `rate_limit` holds."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        name: str = view.rate_limit  # type: ignore[attr-defined]  # the views that name this class declare it
        usage = _usage(request._request, name, request.auth.key, increment=True)
        self.seconds_left = max(1, usage["time_left"]) if usage else 1
        return not (usage and usage["should_limit"])

    def wait(self) -> int:
        return self.seconds_left


def count_bad_credentials(request: HttpRequest) -> None:
    _bad_credentials(request, increment=True)


def too_many_bad_credentials(request: HttpRequest) -> bool:
    usage = _bad_credentials(request, increment=False)
    return bool(usage and usage["count"] >= usage["limit"])


def _bad_credentials(request: HttpRequest, *, increment: bool) -> dict[str, Any] | None:
    address = bucket(request.META.get("REMOTE_ADDR", ""))
    return _usage(request, "RATE_LIMIT_BAD_CREDENTIALS", address, increment=increment)


def _usage(request: HttpRequest, setting: str, value: str, *, increment: bool) -> dict[str, Any] | None:
    """Give django-ratelimit's count, or nothing where the limit is off or the cache cannot be reached."""
    rate = getattr(settings, setting)
    if not rate:
        return None
    usage: dict[str, Any] | None = get_usage(
        request, group=setting, key=lambda group, request: value, rate=rate, increment=increment
    )
    return usage
