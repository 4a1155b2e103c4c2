"""How the admin narrows the list of fee tokens, and the state that each of them is in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Case, CharField, Q, QuerySet, Value, When
from django.utils import timezone

from relayer_service.admin.filters import StateFilter
from rpc.models import FeeToken

OK = "ok"
STATES = [OK, "stale", "failed", "not read yet", "off"]
# The worker reads prices every minute: what was read so long ago tells that it does not.
STALE_AFTER = timedelta(minutes=3)


def troubles() -> dict[str, Q]:
    """Give what is wrong with a token: it is in the first state that holds of it, and ok where none does."""
    return {
        "off": Q(enabled=False),
        "failed": ~Q(rate_error=""),
        "not read yet": Q(rated_at=None),
        "stale": Q(rated_at__lt=timezone.now() - STALE_AFTER),
    }


def with_state(tokens: QuerySet[FeeToken]) -> QuerySet[Any]:
    """Have the database tell each token's state, as `state`."""
    cases = [When(condition, then=Value(state)) for state, condition in troubles().items()]
    return tokens.annotate(state=Case(*cases, default=Value(OK), output_field=CharField()))


class FeeTokenStateFilter(StateFilter):
    states = STATES
