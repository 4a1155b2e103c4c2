"""List the requests that may repeat a transaction found on the chain after commits were lost, and decide about them.

Without options, they are only listed. None of them is sent before it is decided about.
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from relayer_service.audit.actors import ActorKind, acting_as
from transactions.repair.duplicates import send_request, waiting_requests
from transactions.settlement.nonces import adoption

DECIDED = "Decided with the command resolve_claims."


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        options: dict[str, Any] = {"action": "append", "default": [], "metavar": "ID"}
        parser.add_argument("--link", **options, help="this request is the transaction on the chain; can be repeated")
        parser.add_argument("--send", **options, help="this request is another payment: send it; can be repeated")
        parser.add_argument("--reason", default=DECIDED, help="kept in the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        linked, sent = options["link"], options["send"]
        if both := sorted({*linked} & {*sent}):
            raise CommandError(f"Given for both --link and --send: {', '.join(both)}")
        chosen = [*linked, *sent]
        found = waiting_requests(chosen or None)
        if missing := sorted({*chosen} - {row.identifier for row, _ in found}):
            raise CommandError(f"Not waiting for a decision: {', '.join(missing)}")
        with acting_as(ActorKind.COMMAND, "resolve_claims"):
            for row, external in found:
                what = f"{row.identifier} of {row.relayer}: {external.mined_attempt}"
                if not chosen:
                    self.stdout.write(what)
                    continue
                is_linked = row.identifier in linked
                done = (
                    adoption.link(row, external, options["reason"])
                    if is_linked
                    else send_request(row, options["reason"])
                )
                if not done:
                    raise CommandError(f"{row.identifier} was changed meanwhile. Run the command again.")
                self.stdout.write(f"{what}: {'linked' if is_linked else 'will be sent'}")
        if not chosen:
            self.stdout.write(f"{len(found)} to decide.")
