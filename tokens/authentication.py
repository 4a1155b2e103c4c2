"""Bearer authentication: from the Authorization header to a token and its user."""

import hashlib
import logging
import time

from django.contrib.auth.models import User
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from relayer_service.database.ttl_cache import TTLCache
from tokens import credentials
from tokens.models import AccessToken, verified_tokens
from tokens.tasks import record_use

logger = logging.getLogger(__name__)

# How long a verified token is cached: within it, every process rejects a revoked one.
CACHE_SECONDS = 5
# A worker writes the last use: a request makes no write, and at most one task a minute per token and process.
RECORD_SECONDS = 60

_recorded: TTLCache[int, bool] = TTLCache()


class BearerAuthentication(BaseAuthentication):
    """Every rejection has the same response; the log has the reason."""

    def authenticate(self, request: Request) -> tuple[User, AccessToken] | None:
        header = request.META.get("HTTP_AUTHORIZATION")
        if header is None:
            return None
        scheme, _, text = header.strip(" ").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = self._token(text.lstrip(" "))
        # Its uses are counted, also those that are rejected.
        request._request.access_token_id = token.pk  # type: ignore[attr-defined]
        if not token.is_usable(request.META.get("REMOTE_ADDR", "")):
            raise self._rejection("expired, disabled or from another network", token.key)
        # For the request's log line and the audit log.
        request._request.access_token_key = token.key  # type: ignore[attr-defined]
        request._request.access_token_name = token.name  # type: ignore[attr-defined]
        _record_use(token)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"

    def _token(self, text: str) -> AccessToken:
        digest = hashlib.sha256(text.encode()).digest()
        return verified_tokens.get_or_read(digest, lambda: self._verify(text), CACHE_SECONDS)

    def _verify(self, text: str) -> AccessToken:
        credential = credentials.parse(text)
        if credential is None:
            raise self._rejection("not a token of this service", "unreadable")
        token = AccessToken.objects.verify(credential)
        if token is None:
            raise self._rejection("unknown key, wrong secret or inactive user", credential.key)
        return token

    @staticmethod
    def _rejection(reason: str, key: str) -> AuthenticationFailed:
        logger.warning("Rejected a credential (%s): %s", key, reason)
        return AuthenticationFailed()


def _record_use(token: AccessToken) -> None:
    if _recorded.get(token.pk):
        return
    _recorded.set(token.pk, True, RECORD_SECONDS)
    try:
        record_use(token.pk, time.time())
    except Exception:
        # A queue that is down must not reject a valid token.
        logger.exception("The use of a token could not be queued")
