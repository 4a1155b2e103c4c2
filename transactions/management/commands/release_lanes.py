"""End the holds of lanes, so that their transactions get nonces again.

A hold that protects against executing a transaction twice ends by itself. It ends here only with --accept-risk.
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from chain.networks import networks
from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.background.tasks import push
from transactions.lanes.wake import wake_lane
from transactions.models import Hold, Lane
from transactions.repair.holding import RISKS, release_lane
from transactions.repair.lane_selection import add_relayer_option, chosen_lanes
from transactions.settlement import chains
from transactions.settlement.nonces import epochs

RELEASED = "Released by the command release_lanes."
LOCAL_ONLY = (
    "--new-chain is for development chains: transactions in flight are given up. Name relayers with --relayer."
)


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        add_relayer_option(parser)
        parser.add_argument(
            "--new-chain",
            action="store_true",
            help="a local development chain was started anew: number nonces from its beginning",
        )
        parser.add_argument(
            "--accept-risk", action="store_true", help="also end holds that protect against a transaction sent twice"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        lanes = chosen_lanes(options["relayer"])
        public = [lane for lane in lanes if is_public(lane.chain_id)]
        if options["new_chain"] and public:
            raise CommandError(f"{public[0]}: {LOCAL_ONLY}")
        with acting_as(ActorKind.COMMAND, "release_lanes"):
            still_held = [lane for lane in lanes if self._release(lane.pk, options)]
        if still_held:
            raise CommandError(f"Still held: {len(still_held)}. Read the risk above, or add --accept-risk.")

    def _release(self, key: int, options: dict[str, Any]) -> bool:
        """End the holds of a lane as far as the options allow; return whether one is left."""
        with transaction.atomic():
            lane = Lane.objects.select_for_update(no_key=True).get(pk=key)
            if options["new_chain"]:
                epochs.start_epoch(lane)
                push(wake_lane, key)
            ended = [each for each in sorted(lane.holds) if each == Hold.OPERATOR or options["accept_risk"]]
            release_lane(lane, ended, RELEASED)
            left = [Hold(each) for each in sorted(lane.holds)]
        done = "released" if ended or options["new_chain"] else "not held"
        self.stdout.write(f"{lane}: {'still held' if left else done}")
        for reason in left:
            self.stdout.write(f"  {reason.label}. {RISKS[reason]}")
        return bool(left)


def is_public(chain_id: int) -> bool:
    """Return whether a chain ID belongs to a known network, whose chain is never replaced."""
    return any(network.chain_id == chain_id and network.name != chains.DEVELOPMENT for network in networks().values())
