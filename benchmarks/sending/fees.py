"""A day of simulated blocks with a fee spike: what was paid, and how long a cap delays a lane after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.databases import Bench
from benchmarks.report import Row

if TYPE_CHECKING:
    from benchmarks.areas.fee_day import FeeDay

FAST_BLOCKS = 1_200
# After the spike, blocks until all that was accepted before its end is mined, with a cap below its price.
MAX_BLOCKS_TO_RECOVER = 30


def rows(bench: Bench) -> list[Row]:
    # It sets up Django, for whose settings the other parts start processes of their own.
    from benchmarks.areas import fee_day

    found = fee_day.run(FAST_BLOCKS) if bench.fast else fee_day.run()
    return [row(day) for day in found]


def row(day: FeeDay) -> Row:
    beside = {
        "accepted": day.accepted,
        "mined": day.mined,
        "bumps": day.bumps,
        "blocks p50": day.median_blocks,
        "longest": day.longest_blocks,
    }
    if day.cap_gwei is None:
        figure, against = f"a day with a fee spike, {day.speed}: paid above", "the minimum possible"
        return Row(figure, day.above_minimum_percent, "%", against, beside=beside)
    return Row(
        f"the same, capped at {day.cap_gwei} gwei, {day.speed}: delayed",
        day.blocks_to_recover,
        "blocks",
        "the end of the spike",
        at_most=MAX_BLOCKS_TO_RECOVER,
        beside=beside | {"% above minimum": day.above_minimum_percent},
    )
