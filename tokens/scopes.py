"""The scopes of tokens. A token without scopes can use the contract's operations, and no extensions."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import TextChoices

from relayer_service import extensions
from relayer_service.tags import tags_in, validate_tag


class Scope(TextChoices):
    READ = "read", "list, read and estimate fees"
    MANAGE = "manage", "create, change and delete; includes read"
    SEND = "send", "send transactions, and read the relayers that send them"
    SIGN = "sign", "sign messages and typed data"
    ROTATE = "rotate", "replace itself by a new token"


INCLUDED: dict[str, set[str]] = {Scope.MANAGE: {Scope.READ}}
LIMITED_TO_RELAYERS: set[str] = {Scope.MANAGE, Scope.SEND, Scope.SIGN}
MANAGE_RELAYERS = "change names and policies, pause and resume"
WITHOUT_SCOPES = "list and create signers, list relayers, change webhooks, make JSON-RPC calls"


def grants(scopes: Iterable[str], needed: str) -> bool:
    """Return whether one of the scopes is or includes the needed one; unavailable scopes grant nothing."""
    effective = [scope for scope in scopes if scope in extensions.available_scopes()]
    return any(scope == needed or needed in INCLUDED.get(scope, ()) for scope in effective)


def describe(scopes: Sequence[str], relayers: Sequence[str] = ()) -> str:
    """Return a description of the permissions of a token with these scopes and relayers."""
    if not scopes:
        return WITHOUT_SCOPES
    granted = [_describe_scope(scope, relayers) for scope in Scope if grants(scopes, scope)]
    without_effect = [scope for scope in scopes if scope not in extensions.available_scopes()]
    note = f" (without effect: {', '.join(without_effect)})" if without_effect else ""
    return ("; ".join(granted) or "none") + note


def _describe_scope(scope: Scope, relayers: Sequence[str]) -> str:
    if not relayers or scope not in LIMITED_TO_RELAYERS:
        return scope.label.partition("; includes")[0]
    return f"{MANAGE_RELAYERS if scope == Scope.MANAGE else scope.label} (only {', '.join(relayers)})"


def validate_scopes(scopes: Any) -> None:
    if not isinstance(scopes, list) or not all(scope in Scope.values for scope in scopes):
        raise ValidationError(f"Must be a list of: {', '.join(Scope.values)}.")


def validate_relayer_ids(identifiers: Any) -> None:
    if not isinstance(identifiers, list) or not all(isinstance(each, str) and each for each in identifiers):
        raise ValidationError("Must be a list of relayer IDs, or tag:NAME.")
    for name in tags_in(identifiers):
        validate_tag(name)
