"""Bearer authentication: from the Authorization header to a token and its user."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from tokens import credentials, last_use
from tokens.models import AccessToken, verified_tokens

if TYPE_CHECKING:
    from django.contrib.auth.models import User

logger = logging.getLogger(__name__)

# How long a verified token costs no query; after it every process refuses a revoked one.
CACHE_SECONDS = 5


class BearerAuthentication(BaseAuthentication):
    """Every refusal gets the same answer; the log has the reason."""

    def authenticate(self, request: Request) -> tuple[User, AccessToken] | None:
        header = request.META.get("HTTP_AUTHORIZATION")
        if header is None:
            return None
        scheme, _, text = header.strip(" ").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = self._token(text.lstrip(" "), request.META.get("REMOTE_ADDR", ""))
        # For the request's log line and the audit log.
        request._request.access_token_key = token.key  # type: ignore[attr-defined]
        request._request.access_token_name = token.name  # type: ignore[attr-defined]
        last_use.note(token)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"

    def _token(self, text: str, address: str) -> AccessToken:
        digest = hashlib.sha256(text.encode()).digest()
        token = verified_tokens.get_or_read(digest, lambda: self._verify(text), CACHE_SECONDS)
        if not token.is_usable(address):
            raise self._refusal("expired, disabled or from another network", token.key)
        return token

    def _verify(self, text: str) -> AccessToken:
        credential = credentials.parse(text)
        if credential is None:
            raise self._refusal("not a token of this service", "unreadable")
        token = AccessToken.objects.verify(credential)
        if token is None:
            raise self._refusal("unknown key, wrong secret or inactive user", credential.key)
        return token

    @staticmethod
    def _refusal(reason: str, key: str) -> AuthenticationFailed:
        logger.warning("Refused a credential (%s): %s", key, reason)
        return AuthenticationFailed()
