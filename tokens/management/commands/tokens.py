"""List, issue, rotate and revoke access tokens."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from relayer_service import extensions
from relayer_service.audit.actors import ActorKind, acting_as
from tokens import checks, writes
from tokens.credentials import KEY_LENGTH
from tokens.models import AccessToken, states
from tokens.scopes import Scope
from tokens.writes import DEFAULT_OVERLAP, ONLY_THIS

COLUMNS = "{:<19} {:<24} {:<16} {:<9} {:<17} {:<17} {:<12} {}"
HOUR = timedelta(hours=1)
MAX_OVERLAP_HOURS = 365 * 24
MAX_DAYS = 36_500
# The option of each field.
OPTIONS = {"allowed_networks": "--cidr", "scopes": "--scope", "allowed_relayers": "--relayer"}


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        commands.add_parser("list", help="list all tokens, without their secrets")
        add_issue_arguments(commands.add_parser("issue", help="issue a token and print it"))
        rotate = commands.add_parser("rotate", help="replace a token and print the new one")
        rotate.add_argument("key", type=key, help="the public part of the token")
        rotate.add_argument(
            "--overlap-hours",
            type=int,
            default=DEFAULT_OVERLAP // HOUR,
            help="how long the old token is still accepted (default: %(default)s)",
        )
        rotate.add_argument(
            "--days",
            type=int,
            help="the number of days until the new token expires; by default, when the old one would",
        )
        revoke = commands.add_parser("revoke", help="disable a token, by default with its successors")
        revoke.add_argument("key", type=key, help="the public part of the token")
        revoke.add_argument("--only", action="store_true", help=f"disable only this one: {ONLY_THIS}")

    def handle(self, *args: Any, **options: Any) -> str:
        run: dict[str, Callable[[dict[str, Any]], str]] = {
            "list": self._list,
            "issue": partial(issue, self),
            "rotate": self._rotate,
            "revoke": self._revoke,
        }
        with acting_as(ActorKind.COMMAND, f"tokens {options['command']}"):
            return run[options["command"]](options)

    def _list(self, options: dict[str, Any]) -> str:
        lines = [COLUMNS.format("token", "name", "user", "state", "expires", "last use", "pepper", "permissions")]
        unverifiable = []
        for token in AccessToken.objects.select_related("user").order_by("created_at", "id"):
            problem = checks.problem(token)
            if problem:
                unverifiable.append(f"  {token}: {problem}")
            lines.append(
                COLUMNS.format(
                    token.shown_key,
                    token.name,
                    token.user.get_username(),
                    token.state,
                    to_the_minute(token.expires_at),
                    to_the_minute(token.last_used_at),
                    f"{token.pepper_id} (lost)" if problem else token.pepper_id,
                    token.permissions,
                )
            )
        if unverifiable:
            lines += ["", "No pepper verifies these tokens:", *unverifiable]
        return "\n".join(lines)

    def _rotate(self, options: dict[str, Any]) -> str:
        hours = options["overlap_hours"]
        if not 0 <= hours <= MAX_OVERLAP_HOURS:
            raise CommandError(f"--overlap-hours must be between 0 and {MAX_OVERLAP_HOURS}")
        lifetime = lifetime_of(options)
        try:
            rotation = writes.rotate(get_token(options["key"]).pk, timedelta(hours=hours), lifetime)
        except writes.NotRotatable as error:
            raise CommandError(str(error)) from None
        return output(self, rotation.new, rotation.text)

    def _revoke(self, options: dict[str, Any]) -> str:
        token = get_token(options["key"])
        chosen = AccessToken.objects.filter(pk=token.pk)
        successors = chosen.disable(with_successors=not options["only"]) - token.enabled
        with_others = f", with its successors ({successors})" if successors else ""
        active = ", ".join(map(str, chosen.successors().filter(states()["active"])))
        accepted = f" Its successors are still accepted: {active}." if active else ""
        return f"Revoked: {token}{with_others}. Every process rejects it within seconds.{accepted}"


def add_issue_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="a name for the token, such as the application that uses it")
    parser.add_argument("--user", help="the user it acts for; optional if there is only one superuser")
    parser.add_argument("--days", type=int, help="the number of days until it expires")
    parser.add_argument("--cidr", action="append", default=[], help="a network it is accepted from")
    parser.add_argument(
        "--scope",
        action="append",
        default=[],
        type=available_scope,
        help=f"what it is allowed to do: {' or '.join(extensions.available_scopes())}; can be repeated. "
        "Without scopes, it can use the operations of the interface document",
    )
    parser.add_argument("--relayer", action="append", default=[], help="ID of a relayer it can use and change")


def available_scope(text: str) -> str:
    if text not in Scope.values:
        raise ArgumentTypeError(f"unknown scope {text!r}: use one of {', '.join(extensions.available_scopes())}")
    if text not in extensions.available_scopes():
        raise ArgumentTypeError(f"the scope {text!r} requires the extension {extensions.SCOPES[text]!r}")
    return text


def key(text: str) -> str:
    """Return the public part of a token, which may be followed by the rest."""
    found = text.removeprefix("rms_")[:KEY_LENGTH]
    if len(found) != KEY_LENGTH or not found.isalnum():
        raise ArgumentTypeError("must be the public part of a token, as shown by `tokens list`")
    return found


def issue(command: BaseCommand, options: dict[str, Any]) -> str:
    """Issue a token and return its text."""
    lifetime = lifetime_of(options)
    try:
        token, text = writes.issue(
            name=options["name"],
            user=get_user(options["user"]),
            expires_at=timezone.now() + lifetime if lifetime else None,
            allowed_networks=options["cidr"],
            scopes=options["scope"],
            allowed_relayers=options["relayer"],
        )
    except ValidationError as error:
        faults = [f"{OPTIONS.get(name, name)}: {text}" for name, texts in error.message_dict.items() for text in texts]
        raise CommandError(" ".join(faults)) from None
    return output(command, token, text)


def lifetime_of(options: dict[str, Any]) -> timedelta | None:
    days: int | None = options["days"]
    if days is not None and not 0 < days <= MAX_DAYS:
        raise CommandError(f"--days must be between 1 and {MAX_DAYS}")
    return timedelta(days=days) if days else None


def output(command: BaseCommand, token: AccessToken, text: str) -> str:
    """Write the permissions to standard error, so that standard output has only the token."""
    command.stderr.write(f"Permissions: {token.permissions}.")
    return text


def get_user(name: str | None) -> Any:
    users = get_user_model().objects.filter(is_active=True)
    found = list(users.filter(is_superuser=True)[:2] if name is None else users.filter(username=name))
    if len(found) != 1:
        raise CommandError("specify the token's user with --user" if name is None else f"no active user {name!r}")
    return found[0]


def get_token(public_part: str) -> AccessToken:
    token: AccessToken | None = AccessToken.objects.select_related("user").filter(key=public_part).first()
    if token is None:
        raise CommandError(f"unknown token: rms_{public_part}_…")
    return token


def to_the_minute(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M}" if moment else "never"
