"""List access tokens, issue them, replace them and revoke them."""

from argparse import ArgumentTypeError
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils import timezone

from relayer_service.audit.actors import ActorKind, acting_as
from tokens import peppers
from tokens.credentials import KEY_LENGTH
from tokens.management import issuing
from tokens.models import AccessToken
from tokens.writes import replace

COLUMNS = "{:<19} {:<24} {:<16} {:<9} {:<17} {:<17} {:<12} {}"
DEFAULT_OVERLAP_HOURS = 24


def key(text: str) -> str:
    """Return the public part of a token, however much of the token was typed."""
    found = text.removeprefix("rms_")[:KEY_LENGTH]
    if len(found) != KEY_LENGTH or not found.isalnum():
        raise ArgumentTypeError("the public part of a token is required, as `tokens list` shows it")
    return found


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        commands.add_parser("list", help="list all tokens, without their secrets")
        issuing.add_arguments(commands.add_parser("issue", help="issue a token and print it"))
        rotate = commands.add_parser("rotate", help="print a token in the place of another, which expires soon")
        rotate.add_argument("key", type=key, help="the public part of the token")
        rotate.add_argument(
            "--overlap-hours",
            type=int,
            default=DEFAULT_OVERLAP_HOURS,
            help="for how long the old one is accepted still (default: %(default)s)",
        )
        revoke = commands.add_parser("revoke", help="have a token refused from now on")
        revoke.add_argument("key", type=key, help="the public part of the token")

    def handle(self, *args: Any, **options: Any) -> str:
        run = {"list": self._list, "issue": self._issue, "rotate": self._rotate, "revoke": self._revoke}
        with acting_as(ActorKind.COMMAND, f"tokens {options['command']}"):
            return run[options["command"]](options)

    def _list(self, options: dict[str, Any]) -> str:
        lines = [COLUMNS.format("token", "name", "user", "state", "expires", "last use", "pepper", "may")]
        unverifiable = []
        for token in AccessToken.objects.select_related("user").order_by("created_at", "id"):
            problem = peppers.problem(token)
            if problem:
                unverifiable.append(f"  {token}: {problem}")
            lines.append(
                COLUMNS.format(
                    f"rms_{token.key}_…",
                    token.name,
                    token.user.get_username(),
                    token.state,
                    minute(token.expires_at),
                    minute(token.last_used_at),
                    f"{token.pepper_id} (lost)" if problem else token.pepper_id,
                    token.permissions_in_words,
                )
            )
        if unverifiable:
            lines += ["", "No pepper verifies these tokens:", *unverifiable]
        return "\n".join(lines)

    def _issue(self, options: dict[str, Any]) -> str:
        return issuing.issue(self, options)

    def _rotate(self, options: dict[str, Any]) -> str:
        hours = options["overlap_hours"]
        if not 0 <= hours <= 24 * 365:
            raise CommandError("--overlap-hours must be between 0 and 8760")
        with transaction.atomic():
            old = _found(options["key"])
            if old.state != "active":
                raise CommandError(f"the token is {old.state}: issue another")
            if old.replaced_at:
                raise CommandError("the token was replaced already: rotate the one that replaced it")
            new, text = replace(old, timezone.now() + timedelta(hours=hours))
        return issuing.explained(self, new, text)

    def _revoke(self, options: dict[str, Any]) -> str:
        with transaction.atomic():
            token = _found(options["key"])
            AccessToken.objects.filter(pk=token.pk).disable()
        return f"Revoked: {token}. Every process refuses it within seconds."


def _found(wanted: str) -> AccessToken:
    token: AccessToken | None = (
        AccessToken.objects.select_related("user").select_for_update(of=("self",)).filter(key=wanted).first()
    )
    if token is None:
        raise CommandError(f"there is no token rms_{wanted}_…")
    return token


def minute(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M}" if moment else "never"
