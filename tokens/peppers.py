"""Peppers: the secrets of TOKEN_PEPPERS, with which tokens are hashed. The first one hashes, all of them verify.

A token stores the ID and a fingerprint of its pepper, so that a missing or changed pepper is found without the token's
secret. Tokens of releases without fingerprints get theirs at their next use.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError

if TYPE_CHECKING:
    from tokens.models import AccessToken

MAX_NAMED = 20
FINGERPRINT_LENGTH = 16
# Never a token's secret, which has no spaces.
FINGERPRINTED = "fingerprint of a pepper"


def digest(secret: str, pepper: bytes) -> str:
    return hmac.new(pepper, secret.encode(), hashlib.sha256).hexdigest()


@cache
def fingerprint(pepper: bytes) -> str:
    return digest(FINGERPRINTED, pepper)[:FINGERPRINT_LENGTH]


def fingerprints() -> dict[str, str]:
    """Return the fingerprints of the configured peppers by ID."""
    return {identifier: fingerprint(pepper) for identifier, pepper in settings.TOKEN_PEPPERS.items()}


def problem(token: AccessToken) -> str:
    """Return why no configured pepper verifies a token, or an empty string."""
    configured = fingerprints().get(token.pepper_id)
    if configured is None:
        return f"the pepper {token.pepper_id!r} is missing from TOKEN_PEPPERS"
    if token.pepper_fingerprint not in ("", configured):
        return f"the pepper {token.pepper_id!r} has a different value in TOKEN_PEPPERS"
    return ""


def problem_of_all() -> str:
    """Return a message that lists the active tokens without a valid pepper, by their public parts; empty if none."""
    from tokens.models import AccessToken

    tokens = AccessToken.objects.unverifiable()
    named = [f"{token.shown_key}: {problem(token)}" for token in tokens[:MAX_NAMED]]
    # /ready is called often: the tokens are counted only if there may be more.
    if len(named) == MAX_NAMED and (more := tokens.count() - MAX_NAMED) > 0:
        named.append(f"{more} more")
    return f"No pepper verifies these tokens: {'; '.join(named)}." if named else ""


@register(Tags.database)
def check_peppers(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Find active tokens that no pepper verifies. Needs the database: `check --database default`."""
    try:
        problem = problem_of_all() if databases else ""
    except DatabaseError:
        # Before the migrations, the table or the column does not exist.
        return []
    hint = "Restore the pepper in TOKEN_PEPPERS, or replace the tokens with `manage.py tokens revoke` and `issue`."
    return [Error(problem, hint=hint, id="tokens.E001")] if problem else []
