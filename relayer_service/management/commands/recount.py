"""Compare the row count of each listed table with its rows, and repair it if it is wrong."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DEFAULT_DB_ALIAS, connections

from relayer_service.storage import counting


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="change nothing, and fail if a count is wrong")
        parser.add_argument(
            "--database", default=DEFAULT_DB_ALIAS, choices=tuple(connections), help="the database to check"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        wrong = []
        for table in counting.counted_tables(connection):
            found = counting.compare(connection, table)
            notes = [f"{found.rows} rows", f"{found.counted} counted"]
            if found.wrong:
                notes.append(f"wrong by {found.wrong}")
            if not counting.is_counted(connection, table):
                notes.append("a trigger is missing")
            if len(notes) > 2:
                wrong.append(table)
                if not options["check"]:
                    counting.count(connection, table)
                    notes.append("repaired")
            self.stdout.write(f"{table}: {', '.join(notes)}")
        if wrong and options["check"]:
            raise CommandError(f"Wrong row counts: {', '.join(wrong)}. Run `manage.py recount` to repair them.")
