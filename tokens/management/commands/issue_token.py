"""Issue an access token and print it, alone, on standard output."""

from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from relayer_service.audit.actors import ActorKind, acting_as
from tokens.models import AccessToken

# What the command line calls a field of the token.
OPTIONS = {"allowed_networks": "--cidr"}


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what will use the token")
        parser.add_argument("--user", help="whom it acts for; may be left out where there is one superuser")
        parser.add_argument("--days", type=int, help="after how many days it expires")
        parser.add_argument("--cidr", action="append", default=[], help="a network it is accepted from")

    def handle(self, *args: Any, **options: Any) -> str:
        days = options["days"]
        if days is not None and not 0 < days <= 36_500:
            raise CommandError("--days must be between 1 and 36500")
        try:
            with acting_as(ActorKind.COMMAND, "issue_token"):
                _, text = AccessToken.objects.issue(
                    name=options["name"],
                    user=self._user(options["user"]),
                    expires_at=timezone.now() + timedelta(days=days) if days else None,
                    allowed_networks=options["cidr"],
                )
        except ValidationError as error:
            faults = [
                f"{OPTIONS.get(field, field)}: {message}"
                for field, messages in error.message_dict.items()
                for message in messages
            ]
            raise CommandError(" ".join(faults)) from None
        return text

    @staticmethod
    def _user(name: str | None) -> Any:
        users = get_user_model().objects.filter(is_active=True)
        users = users.filter(username=name) if name is not None else users.filter(is_superuser=True)
        found = list(users[:2])
        if len(found) != 1:
            reason = f"there is no active user {name!r}" if name is not None else "name the token's user with --user"
            raise CommandError(reason)
        return found[0]
