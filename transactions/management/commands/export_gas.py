"""Write what transactions paid for gas as CSV, by day, relayer and requester. Unlike the admin's, without a limit."""

from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from transactions.console.gas_report import finished_between, gas_lines


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "first", type=date.fromisoformat, metavar="FROM", help="the first day (UTC), as 2026-01-31"
        )
        parser.add_argument("last", type=date.fromisoformat, metavar="TO", help="the last day (UTC)")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["last"] < options["first"]:
            raise CommandError("TO is before FROM.")
        for line in gas_lines(finished_between(options["first"], options["last"])):
            self.stdout.write(line, ending="")
