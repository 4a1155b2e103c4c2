"""Whether a configured pepper verifies each active token, for the system checks and the readiness probe."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError

from tokens.models import AccessToken
from tokens.peppers import fingerprints

MAX_NAMED = 20


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
        text = problem_of_all() if databases else ""
    except DatabaseError:
        # Before the migrations, the table or the column does not exist.
        return []
    hint = "Restore the pepper in TOKEN_PEPPERS, or replace the tokens with `manage.py tokens revoke` and `issue`."
    return [Error(text, hint=hint, id="tokens.E001")] if text else []
