"""A relayer's balance and minimum over time, for the chart on its page.

The health check keeps an entry for each hour in which a value changed: the start of the hour as a Unix time, and the
last value in wei, empty for none. In an hour without an entry the value was the previous entry's. Of entries older
than a day the last of each six hours is kept, of those older than 8 days the last of each day, for 31 days.
"""

import math
from collections.abc import Sequence
from datetime import datetime

HOUR = 3600
DAY = 24 * HOUR
QUARTER = 6 * HOUR
# Longer than the charts of 7 and 30 days by at least one of their steps.
QUARTERS_KEPT = 8 * DAY
DAYS_KEPT = 31 * DAY

Entry = Sequence[int | str]


def with_reading(entries: Sequence[Entry], value: str, now: datetime) -> list[list[int | str]]:
    """Return the entries after a reading, without those that no chart needs."""
    hour = int(now.timestamp()) // HOUR * HOUR
    kept = [list(entry) for entry in entries if int(entry[0]) < hour]
    if not kept or kept[-1][1] != value:
        kept.append([hour, value])
    # The last one of each key replaces those before.
    return list({_key(int(entry[0]), hour): entry for entry in kept}.values())


def _key(began: int, hour: int) -> tuple[int, int]:
    """Return the step of a chart that an entry is kept for: its length, and its number."""
    age = hour - began
    if age < DAY:
        return HOUR, began // HOUR
    if age < QUARTERS_KEPT:
        return QUARTER, began // QUARTER
    return (DAY, began // DAY) if age < DAYS_KEPT else (0, 0)


def by_step(entries: Sequence[Entry], starts: Sequence[datetime]) -> list[int | None]:
    """Return the value at the end of each step, given by their starts, or None where it is unknown or not set."""
    ends = [*(start.timestamp() for start in starts[1:]), math.inf]
    found: list[int | None] = []
    for end in ends:
        values = [value for began, value in entries if int(began) < end]
        found.append(int(values[-1]) if values and values[-1] != "" else None)
    return found
