"""Scopes: what a token may do. One without scopes does the contract's operations, and nothing of extensions."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import TextChoices

from relayer_service import extensions


class Scope(TextChoices):
    READ = "read", "list, read and estimate fees"
    MANAGE = "manage", "create, change and delete; includes read"
    SEND = "send", "send transactions, and read the relayers that send them"
    SIGN = "sign", "sign messages"


INCLUDED: dict[str, set[str]] = {Scope.MANAGE: {Scope.READ}}
LIMITED_TO_RELAYERS: set[str] = {Scope.SEND, Scope.SIGN}
WITHOUT_SCOPES = "list and create signers, list relayers, change notifications, make JSON-RPC calls"


def grants(scopes: Iterable[str], needed: str) -> bool:
    """Return whether one of the scopes is the needed one, or includes it.

    One that is unknown, or whose extension is off, allows nothing.
    """
    effective = [scope for scope in scopes if scope in extensions.available_scopes()]
    return any(scope == needed or needed in INCLUDED.get(scope, ()) for scope in effective)


def describe(scopes: Sequence[str], relayers: Sequence[str] = ()) -> str:
    """Return in words what a token with these scopes may do, and with which relayers; it follows "may"."""
    if not scopes:
        return WITHOUT_SCOPES
    words = [_words(scope, relayers) for scope in Scope if grants(scopes, scope)]
    without_effect = [scope for scope in scopes if scope not in extensions.available_scopes()]
    note = f" (without effect: {', '.join(without_effect)})" if without_effect else ""
    return ("; ".join(words) or "do nothing") + note


def _words(scope: Scope, relayers: Sequence[str]) -> str:
    words = scope.label.partition("; includes")[0]
    return f"{words} ({', '.join(relayers)} alone)" if relayers and scope in LIMITED_TO_RELAYERS else words


def validate_scopes(scopes: Any) -> None:
    if not isinstance(scopes, list) or not all(scope in Scope.values for scope in scopes):
        raise ValidationError(f"A list out of {', '.join(Scope.values)} is required.")


def validate_relayer_ids(identifiers: Any) -> None:
    if not isinstance(identifiers, list) or not all(isinstance(each, str) and each for each in identifiers):
        raise ValidationError("A list of relayers' ids is required.")
