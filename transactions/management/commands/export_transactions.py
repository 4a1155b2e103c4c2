"""Write transactions of all kinds as CSV, the newest first. Unlike the admin's export, without a limit."""

from datetime import UTC, date, datetime, time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from transactions.console.exports import transaction_lines
from transactions.models import IS_IN_STATUS, Status, Transaction
from transactions.repair.lane_selection import add_relayer_option, chosen_lanes


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        add_relayer_option(parser)
        parser.add_argument("--status", choices=Status.values, help="only transactions in this status")
        parser.add_argument(
            "--from", type=date.fromisoformat, metavar="DAY", help="accepted on this day (UTC) or later"
        )
        parser.add_argument(
            "--to", type=date.fromisoformat, metavar="DAY", help="accepted on this day (UTC) or earlier"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        rows = Transaction.objects.all()
        if options["relayer"]:
            rows = rows.filter(relayer__in=[lane.relayer_id for lane in chosen_lanes(options["relayer"])])
        if options["status"]:
            rows = rows.filter(IS_IN_STATUS[options["status"]])
        if options["from"]:
            rows = rows.filter(created_at__gte=datetime.combine(options["from"], time.min, UTC))
        if options["to"]:
            rows = rows.filter(created_at__lte=datetime.combine(options["to"], time.max, UTC))
        for line in transaction_lines(rows):
            self.stdout.write(line, ending="")
