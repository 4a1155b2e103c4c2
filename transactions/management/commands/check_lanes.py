"""Check the nonces, signed transactions and prices of lanes, and compare them with the chain.

Exit code 1: a violation was found. Exit code 2: a chain could not be read, or an argument is wrong.
"""

from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chain.errors import NodesUnreachable
from relayer_service.storage.encryption import DecryptionError
from transactions.models import Lane
from transactions.repair import invariants
from transactions.repair.invariants import CheckedLane
from transactions.repair.lane_selection import add_relayer_option, chosen_lanes
from transactions.repair.limit_checks import limit_violations

VIOLATED, UNREADABLE = 1, 2


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        add_relayer_option(parser)
        parser.add_argument(
            "--nonces",
            type=positive,
            default=invariants.CHECKED_NONCES,
            help="how many of the newest nonces of each lane to check (default: %(default)s)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        violations = unreadable = 0
        lanes = chosen_lanes(options["relayer"], returncode=UNREADABLE)
        for lane in lanes:
            found, error = check(lane, options["nonces"])
            violations += len(found)
            unreadable += bool(error)
            self.stdout.write(f"{describe(lane)}: {error or ('VIOLATED' if found else 'ok')}")
            for text in found:
                self.stdout.write(f"  {text}")
        for text in limit_violations(lanes):
            violations += 1
            self.stdout.write(text)
        self.stdout.write(f"{len(lanes)} checked, {violations} violations, {unreadable} could not be read.")
        if violations:
            raise CommandError("Invariants are violated.", returncode=VIOLATED)
        if unreadable:
            raise CommandError("Not every chain could be read.", returncode=UNREADABLE)


def check(lane: Lane, limit: int) -> tuple[list[str], str]:
    """Return the violations of a lane, and why its chain could not be read or ""."""
    checked = CheckedLane.read(lane, limit)
    found = invariants.database_violations(checked)
    if lane.next_nonce is None:
        return found, ""
    try:
        return [*found, *invariants.chain_violations(checked, invariants.chain_count(lane))], ""
    except (NodesUnreachable, DecryptionError) as error:
        return found, str(error)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ArgumentTypeError("must be at least 1")
    return number


def describe(lane: Lane) -> str:
    relayer = f"relayer {lane.relayer}" if lane.relayer else "no relayer"
    nonces = "no nonce yet"
    if lane.next_nonce is not None and lane.next_nonce != lane.first_nonce:
        nonces = f"nonces {lane.first_nonce} to {lane.next_nonce - 1}"
    held = f", held: {', '.join(sorted(lane.holds))}" if lane.is_held else ""
    return f"{lane} ({relayer}), {nonces}{held}"
