"""Reset the second factor of a user who has lost it: the user signs in with the password, and sets up a new one."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.sign_in.models import disable


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        username = options["username"]
        user = User.objects.filter(username=username).first()
        if user is None:
            raise CommandError(f"Unknown user {username!r}.")
        with acting_as(ActorKind.COMMAND, "reset_second_factor"):
            was_reset = disable(user, "Reset the second factor")
        if not was_reset:
            raise CommandError(f"{username} has no second factor.")
        self.stdout.write(f"The second factor of {username} was reset.")
