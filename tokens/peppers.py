"""Peppers: the secrets of TOKEN_PEPPERS, under which tokens are hashed. The first one hashes, all of them verify.

A token holds the id of its pepper and a fingerprint, by which a pepper that is missing or has another value is found
without the token's secret. Tokens of releases without fingerprints get theirs when they are next used.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    from tokens.models import AccessToken

MAX_NAMED = 20
FINGERPRINT_LENGTH = 16
# Never the secret of a token, which has no spaces.
FINGERPRINTED = "fingerprint of a pepper"


def digest(secret: str, pepper: bytes) -> str:
    return hmac.new(pepper, secret.encode(), hashlib.sha256).hexdigest()


@cache
def fingerprint(pepper: bytes) -> str:
    return digest(FINGERPRINTED, pepper)[:FINGERPRINT_LENGTH]


def fingerprints() -> dict[str, str]:
    """Return the fingerprints of the configured peppers, by id."""
    return {identifier: fingerprint(pepper) for identifier, pepper in settings.TOKEN_PEPPERS.items()}


def problem(token: AccessToken) -> str:
    """Return why no configured pepper verifies a token, or an empty string if one does."""
    configured = fingerprints().get(token.pepper_id)
    if configured is None:
        return f"the pepper {token.pepper_id!r} is not among TOKEN_PEPPERS"
    if token.pepper_fingerprint not in ("", configured):
        return f"the pepper {token.pepper_id!r} has another value in TOKEN_PEPPERS"
    return ""


def problem_of_all() -> str:
    """Return a text that names the active tokens no configured pepper verifies, empty if there are none.

    It contains only the public part of each.
    """
    from tokens.models import AccessToken

    tokens = AccessToken.objects.unverifiable()
    named = [f"rms_{token.key}_…: {problem(token)}" for token in tokens[:MAX_NAMED]]
    # /ready asks often: all are counted only where not all are named.
    if len(named) == MAX_NAMED and (more := tokens.count() - MAX_NAMED) > 0:
        named.append(f"{more} more")
    return f"No pepper verifies these tokens: {'; '.join(named)}." if named else ""
