"""Write the fleet as JSON for load_config, with variables in place of secrets."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from relayer_service.fleet.files import write_private
from relayer_service.fleet.references import Variables
from relayer_service.fleet.sections import section_classes


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-o", "--output", type=Path, help="the file to write (default: standard output)")

    def handle(self, *args: Any, **options: Any) -> None:
        variables = Variables()
        document = {section.name: section.dump(variables) for section in section_classes()}
        text = json.dumps(document, indent=2, ensure_ascii=False)
        if options["output"] is None:
            self.stdout.write(text)
        else:
            try:
                write_private(options["output"], f"{text}\n")
            except OSError as error:
                raise CommandError(f"Cannot write {options['output']}: {error.strerror}") from None
        self.stderr.write(f"Wrote {len(variables.names)} variables in place of secrets, without their values.")
