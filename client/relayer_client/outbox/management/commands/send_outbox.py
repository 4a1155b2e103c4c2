import logging
import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import InterfaceError, OperationalError, close_old_connections

from relayer_client.outbox.configuration import open_client
from relayer_client.outbox.pauses import MAX_POLL_SECONDS, retry_pause
from relayer_client.outbox.sending import run_once

logger = logging.getLogger("relayer_client.outbox")


class Command(BaseCommand):
    help = "Hand the transactions of the outbox over to the service and follow them, until SIGTERM or SIGINT."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="Process what is due now, and exit.")
        parser.add_argument("--interval", type=float, default=1.0, help="Seconds between two runs (default: 1).")
        parser.add_argument("--database", help="Alias of the database that has the outbox.")

    def handle(self, *, once: bool, interval: float, database: str | None, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        failures, reason = 0, ""
        with open_client() as client:
            while not stop.is_set():
                close_old_connections()
                try:
                    progress = run_once(client, database, stop.is_set)
                except (OperationalError, InterfaceError) as error:
                    if once:
                        raise CommandError("The database cannot be used.") from error
                    logger.exception("The database cannot be used.")
                    failures += 1
                else:
                    failures, reason = 0, str(progress.hold or progress.failure or reason)
                    if progress.has_more:
                        continue
                    if once and reason:
                        raise CommandError(reason)
                    if once:
                        return
                backoff = min(retry_pause(failures).total_seconds(), MAX_POLL_SECONDS)
                stop.wait(max(interval, backoff) if failures else interval)
