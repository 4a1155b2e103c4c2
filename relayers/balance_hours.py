"""A relayer's balance by hour, for the chart on its page.

The health check keeps an entry for each hour in which the balance changed: the start of the hour as a Unix time, and
the last balance in wei. In an hour without an entry the balance was that of the entry before.
"""

from collections.abc import Sequence
from datetime import datetime

HOUR = 3600
HOURS_KEPT = 24

Entry = Sequence[int | str]


def with_reading(entries: Sequence[Entry], balance: str, now: datetime) -> list[list[int | str]]:
    """Return the entries after a reading: those of the last day, and the newest one before it."""
    hour = _hour(now)
    kept = [list(entry) for entry in entries if int(entry[0]) < hour]
    if not kept or kept[-1][1] != balance:
        kept.append([hour, balance])
    old = [entry for entry in kept if int(entry[0]) <= hour - HOURS_KEPT * HOUR]
    return kept[max(len(old) - 1, 0) :]


def by_hour(entries: Sequence[Entry], start: datetime, hours: int) -> list[int | None]:
    """Return the balance in each of these hours, or None where it is unknown."""
    starts = range(_hour(start), _hour(start) + hours * HOUR, HOUR)
    known = ([int(balance) for began, balance in entries if int(began) <= hour] for hour in starts)
    return [balances[-1] if balances else None for balances in known]


def _hour(moment: datetime) -> int:
    return int(moment.timestamp()) // HOUR * HOUR
