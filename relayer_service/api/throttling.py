"""Rate limits of tokens, counted in the shared cache: tokens that replaced each other count together."""

from typing import Any

from django.conf import settings
from django_ratelimit.core import _split_rate, get_usage
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from relayer_service.api import allowances


class TokenRateThrottle(BaseThrottle):
    """Limits a view's requests per token, to the rate in the setting that the view names as `rate_limit`."""

    def allow_request(self, request: Request, view: Any) -> bool:
        return self.count(request, view.rate_limit, getattr(settings, view.rate_limit))

    def count(self, request: Request, group: str, rate: str) -> bool:
        if not rate:
            return True
        token: Any = request.auth
        # None while the cache is unavailable.
        usage = get_usage(request._request, group=group, key=lambda *_: token.family_key, rate=rate, increment=True)
        self.seconds_left = max(1, usage["time_left"]) if usage else 1
        return not (usage and usage["should_limit"])

    def wait(self) -> int:
        return self.seconds_left


class WaitingRateThrottle(TokenRateThrottle):
    """Limits requests that wait for nodes or signers, to the rate of JSON-RPC calls but counted separately."""

    group = "waiting"

    def allow_request(self, request: Request, view: Any) -> bool:
        return self.count(request, self.group, settings.RATE_LIMIT_RPC)


class ChangeRateThrottle(WaitingRateThrottle):
    """Limits changes by extensions, to the same rate but counted separately."""

    group = "changes"


class SendRateThrottle(TokenRateThrottle):
    """Limits requests to send, of which a process takes a hundredth at a time: most need no round trip."""

    def count(self, request: Request, group: str, rate: str) -> bool:
        if not rate:
            return True
        token: Any = request.auth
        limit, seconds = _split_rate(rate)
        self.seconds_left = allowances.take(f"{group}:{token.family_key}", 1, limit, seconds, limit // 100)
        return not self.seconds_left
