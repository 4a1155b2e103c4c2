"""Hold lanes: their transactions get no new nonces. What is in flight is still rebroadcast, bumped and settled."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.storage.selections import Selection
from transactions.repair.holding import hold_lanes
from transactions.repair.lane_selection import add_relayer_option, chosen_lanes
from transactions.settlement.nonces.holds import hold_for_lost_commits

RESTORED = "The database was restored from a backup."


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        add_relayer_option(parser)
        parser.add_argument(
            "--restored",
            action="store_true",
            help="the database was restored: before it sends again, a lane closes every nonce that may have been used",
        )
        parser.add_argument("--reason", default="", help="shown to staff and clients")

    def handle(self, *args: Any, **options: Any) -> None:
        lanes = chosen_lanes(options["relayer"])
        reason, count = options["reason"], 0
        hold, why = (hold_for_lost_commits, reason or RESTORED) if options["restored"] else (hold_lanes, reason)
        with acting_as(ActorKind.COMMAND, "hold_lanes"):
            for lane in lanes:
                done = hold(Selection.from_keys([lane.pk]), why)
                self.stdout.write(f"{lane}: {'held' if done else 'already held'}")
                count += done
        self.stdout.write(f"{count} held.")
