"""Amounts by hour: the last 24 hours count, and what is open. Pure functions.

An hour counts until all of it is older than 24 hours, so that no period of 24 hours exceeds a limit.
"""

from collections.abc import Mapping
from datetime import datetime

SECONDS_PER_HOUR = 3600
HOURS = 24
# The hour of what is not final: as it may be mined at any time, it never gets old. The column's maximum.
OPEN_HOUR = 2**31 - 1

# Amounts as decimal text, by hour since 1970; JSON has only text as keys.
Hours = Mapping[str, str]


def hour_of(moment: datetime) -> int:
    return int(moment.timestamp()) // SECONDS_PER_HOUR


def first_counted(hour: int) -> int:
    """Return the oldest hour that counts during an hour."""
    return hour - HOURS


def used(hours: Hours, hour: int) -> int:
    """Return the sum that counts during an hour."""
    first = first_counted(hour)
    return sum(int(amount) for name, amount in hours.items() if int(name) >= first)


def with_amount(hours: Hours, now: int, hour: int, amount: int) -> dict[str, str]:
    """Return the hours after an amount was added to one of them; those that do not count any more are dropped."""
    first = first_counted(now)
    kept = {name: text for name, text in hours.items() if int(name) >= first}
    if hour >= first:
        total = int(kept.pop(str(hour), "0")) + amount
        if total:
            kept[str(hour)] = str(total)
    return kept
