"""Create and update the fleet from a JSON file, in one transaction."""

import math
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError
from rest_framework.exceptions import ParseError

from relayer_service.api.parsers import loads
from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.fleet.files import Faults
from relayer_service.fleet.planning import Plan, plan
from relayer_service.fleet.sections import ConcurrentChange
from relayer_service.writes import Write

CONFIRM = "--confirm-address-changes"


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the JSON file")
        parser.add_argument("--dry-run", action="store_true", help="print the changes without applying them")
        parser.add_argument(
            CONFIRM, action="store_true", help="allow the addresses of relayers to follow a signer's new key"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        dry_run = options["dry_run"]
        try:
            found = self._plan(options["file"])
            for warning in found.warnings:
                self.stderr.write(f"Warning: {warning}")
            if not options["confirm_address_changes"]:
                self._ask(found.questions, dry_run)
            if not dry_run:
                with acting_as(ActorKind.FLEET_FILE, options["file"].name):
                    found.apply()
        except ConcurrentChange:
            raise CommandError("Nothing was changed: the fleet was changed concurrently. Try again.") from None
        except OperationalError:
            raise CommandError("Nothing was changed: the database is busy or unreachable. Try again.") from None
        for write in found.writes:
            self.stdout.write(describe(write))
        states = [write.state for write in found.writes]
        counts = ", ".join(f"{states.count(name)} {name}" for name in ("created", "updated", "unchanged"))
        self.stdout.write(f"Dry run, nothing was changed: {counts}." if dry_run else f"{counts}.")

    def _ask(self, questions: list[str], dry_run: bool) -> None:
        if questions and not dry_run:
            text = "\n  ".join(questions)
            raise CommandError(f"Nothing was changed. Add {CONFIRM} to change addresses:\n  {text}")
        for question in questions:
            self.stderr.write(f"Needs {CONFIRM}: {question}")

    @staticmethod
    def _plan(file: Path) -> Plan:
        try:
            return plan(loads(file.read_bytes(), max_values=math.inf))
        except OSError as error:
            raise CommandError(f"Cannot read {file}: {error.strerror}") from None
        except ParseError as error:
            raise CommandError(f"{file}: {str(error.detail).replace('the body', 'the file')}") from None
        except Faults as faults:
            text = "\n  ".join(faults.lines)
            raise CommandError(f"Nothing was changed. Errors in {file}:\n  {text}") from None


def describe(write: Write[Any]) -> str:
    """Return a line that names a row and its changed fields, without values."""
    fields = f" ({', '.join(write.fields)})" if write.state == "updated" else ""
    return f"{write.row._meta.verbose_name} {write.row}: {write.state}{fields}"
