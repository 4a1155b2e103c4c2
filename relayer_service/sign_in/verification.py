"""Whether a session has passed the second factor of its user."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from relayer_service.roles import ROLES, rank, role_of
from relayer_service.sign_in.models import SecondFactor

# The identifier of the second factor that the session has passed.
SESSION_KEY = "second_factor"


def second_factor_of(user: Any) -> SecondFactor | None:
    # Without one, Django's error is an `AttributeError`, too.
    return getattr(user, "second_factor", None)


def is_required(user: Any) -> bool:
    """Return whether a user must have a second factor; a role in the setting means it and those above it."""
    required = settings.REQUIRE_SECOND_FACTOR
    if required == "none" or user.is_superuser:
        return bool(required != "none")
    if required in ROLES:
        return rank(role_of([group.name for group in user.groups.all()])) >= rank(required)
    return bool(required == "staff" and user.is_staff)


def is_verified(request: HttpRequest) -> bool:
    factor = second_factor_of(request.user)
    if factor is None:
        return not is_required(request.user)
    return bool(request.session.get(SESSION_KEY) == str(factor.identifier))


def verify_session(request: HttpRequest, factor: SecondFactor) -> None:
    """Mark the session as verified, under a new key."""
    request.session.cycle_key()
    request.session[SESSION_KEY] = str(factor.identifier)
