"""System checks of tokens: a pepper that is missing or has another value is found before a caller is refused."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError

from tokens.peppers import problem_of_all


@register(Tags.database)
def check_peppers(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Find active tokens that no pepper verifies. Needs the database: `check --database default`."""
    if not databases:
        return []
    try:
        problem = problem_of_all()
    except DatabaseError:
        # Before the migrations there is no table, or not the column.
        return []
    hint = "Put the pepper back into TOKEN_PEPPERS, or replace the tokens: `manage.py tokens revoke` and `issue`."
    return [Error(problem, hint=hint, id="tokens.E001")] if problem else []
