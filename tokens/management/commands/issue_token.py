"""Issue an access token and print it, alone, on standard output."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from relayer_service.audit.actors import ActorKind, acting_as
from tokens.management.commands.tokens import add_issue_arguments, issue


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        add_issue_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> str:
        with acting_as(ActorKind.COMMAND, "issue_token"):
            return issue(self, options)
