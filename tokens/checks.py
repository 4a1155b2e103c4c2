"""Whether a configured pepper verifies each active token, for the system checks and the readiness probe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError

from tokens import peppers
from tokens.models import AccessToken

MAX_NAMED = 20


def problem_of_all() -> str:
    """Return a message that lists the active tokens without a valid pepper, by their public parts; empty if none."""
    tokens = AccessToken.objects.unverifiable()
    named = [f"{token.shown_key}: {peppers.problem(token)}" for token in tokens[:MAX_NAMED]]
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
