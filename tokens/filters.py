"""How the admin narrows the list of access tokens."""

from collections.abc import Mapping
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from relayer_service.admin.filters import StateFilter

SOON = timedelta(days=14)
EXPIRES_SOON = "expires soon"


def states() -> dict[str, Q]:
    """Return the conditions of the states that a token can be in now."""
    now = timezone.now()
    return {
        "active": Q(enabled=True) & (Q(expires_at=None) | Q(expires_at__gt=now)),
        EXPIRES_SOON: Q(enabled=True, expires_at__gt=now, expires_at__lte=now + SOON),
        "expired": Q(enabled=True, expires_at__lte=now),
        "disabled": Q(enabled=False),
    }


class TokenStateFilter(StateFilter):
    @classmethod
    def current_conditions(cls) -> Mapping[str, Q]:
        return states()
