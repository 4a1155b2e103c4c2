"""Issuing a token from the command line: the arguments, and what they mean."""

from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from relayer_service import extensions
from tokens import writes
from tokens.models import AccessToken
from tokens.scopes import Scope

# What the command line calls a field of the token.
OPTIONS = {"allowed_networks": "--cidr", "scopes": "--scope", "allowed_relayers": "--relayer"}
MAX_DAYS = 36_500


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="what will use the token")
    parser.add_argument("--user", help="whom it acts for; may be left out where there is one superuser")
    parser.add_argument("--days", type=int, help="after how many days it expires")
    parser.add_argument("--cidr", action="append", default=[], help="a network it is accepted from")
    parser.add_argument(
        "--scope",
        action="append",
        default=[],
        type=available_scope,
        help=f"what it may do, and nothing else: {' or '.join(extensions.available_scopes())}; may be repeated. "
        "Without one it may do what the interface document shows",
    )
    parser.add_argument("--relayer", action="append", default=[], help="the id of a relayer it may send and sign with")


def available_scope(text: str) -> str:
    """Return a scope, unless it is unknown or its extension is off."""
    if text not in Scope.values:
        raise ArgumentTypeError(f"unknown scope {text!r}: use one of {', '.join(extensions.available_scopes())}")
    if text not in extensions.available_scopes():
        raise ArgumentTypeError(f"the scope {text!r} needs the extension {extensions.SCOPES[text]!r}, which is not on")
    return text


def issue(command: BaseCommand, options: dict[str, Any]) -> str:
    """Issue a token as the arguments say; return its text."""
    days = options["days"]
    if days is not None and not 0 < days <= MAX_DAYS:
        raise CommandError(f"--days must be between 1 and {MAX_DAYS}")
    try:
        token, text = writes.issue(
            name=options["name"],
            user=_user(options["user"]),
            expires_at=timezone.now() + timedelta(days=days) if days else None,
            allowed_networks=options["cidr"],
            scopes=options["scope"],
            allowed_relayers=options["relayer"],
        )
    except ValidationError as error:
        faults = [
            f"{OPTIONS.get(field, field)}: {message}"
            for field, messages in error.message_dict.items()
            for message in messages
        ]
        raise CommandError(" ".join(faults)) from None
    return explained(command, token, text)


def explained(command: BaseCommand, token: AccessToken, text: str) -> str:
    """Return the text of a token, and write what it may do to standard error: standard output has the token alone."""
    command.stderr.write(f"It may {token.permissions_in_words}.")
    return text


def _user(name: str | None) -> Any:
    users = get_user_model().objects.filter(is_active=True)
    users = users.filter(username=name) if name is not None else users.filter(is_superuser=True)
    found = list(users[:2])
    if len(found) != 1:
        reason = f"there is no active user {name!r}" if name is not None else "name the token's user with --user"
        raise CommandError(reason)
    return found[0]
