"""The lanes that a command works on: all lanes, or the lanes of the named relayers."""

from collections.abc import Sequence

from django.core.management.base import CommandError, CommandParser

from transactions.models import Lane


def add_relayer_option(parser: CommandParser) -> None:
    parser.add_argument(
        "--relayer", action="append", default=[], metavar="ID", help="only this relayer; can be repeated"
    )


def chosen_lanes(relayers: Sequence[str], returncode: int = 1) -> list[Lane]:
    """Return lanes in the order in which they are locked; raise `CommandError` if a relayer has none."""
    lanes = Lane.objects.select_related("relayer").order_by("pk")
    if not relayers:
        return list(lanes)
    found = list(lanes.filter(relayer__identifier__in=relayers))
    missing = sorted({*relayers} - {lane.relayer.identifier for lane in found if lane.relayer})
    if missing:
        names = ", ".join(missing)
        raise CommandError(
            f"No lane belongs to: {names}. A relayer gets one with its first transaction.", returncode=returncode
        )
    return found
