"""Rate limits, counted by django-ratelimit in the shared cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django_ratelimit.core import get_usage
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

if TYPE_CHECKING:
    # The framework loads this module while it loads its views.
    from rest_framework.views import APIView


class TokenRateThrottle(BaseThrottle):
    """Count a view's requests for each token, under the rate that the setting named in `rate_limit` holds."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        name: str = view.rate_limit  # type: ignore[attr-defined]  # the views that name this class declare it
        return self.count(request, name, getattr(settings, name))

    def count(self, request: Request, group: str, rate: str) -> bool:
        """Count a request in a group; return whether it is within the rate."""
        if not rate:
            return True
        # None while the cache cannot be reached.
        usage = get_usage(request._request, group=group, key=lambda *_: request.auth.key, rate=rate, increment=True)
        self.seconds_left = max(1, usage["time_left"]) if usage else 1
        return not (usage and usage["should_limit"])

    def wait(self) -> int:
        return self.seconds_left


class WaitingRateThrottle(TokenRateThrottle):
    """Count requests that wait for nodes or signers: under the rate of JSON-RPC calls, but apart from these."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        return self.count(request, "waiting", settings.RATE_LIMIT_RPC)
