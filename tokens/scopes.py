"""Scopes: what a token may do beyond the contract. The contract's own operations need none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import TextChoices


class Scope(TextChoices):
    READ = "read", "Read the whole fleet"
    MANAGE = "manage", "Create, change and delete; includes read"
    SEND = "send", "Send transactions"
    SIGN = "sign", "Sign messages"


INCLUDED: dict[str, set[str]] = {Scope.MANAGE: {Scope.READ}}


def grants(scopes: Iterable[str], needed: str) -> bool:
    """Return whether one of the scopes is the needed one, or includes it; an unknown one allows nothing."""
    return any(scope == needed or needed in INCLUDED.get(scope, ()) for scope in scopes)


def validate_scopes(scopes: Any) -> None:
    if not isinstance(scopes, list) or not all(scope in Scope.values for scope in scopes):
        raise ValidationError(f"A list out of {', '.join(Scope.values)} is required.")


def validate_relayer_ids(identifiers: Any) -> None:
    if not isinstance(identifiers, list) or not all(isinstance(each, str) and each for each in identifiers):
        raise ValidationError("A list of relayers' ids is required.")
