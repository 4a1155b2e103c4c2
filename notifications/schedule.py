"""When a delivery is tried again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

# A target may ask for more patience than the schedule has, up to the longest wait of the usual one.
LONGEST_RETRY_AFTER = timedelta(days=1)


def next_attempt(
    schedule: Sequence[int], jitter_percent: int, attempts_made: int, now: datetime, retry_after: timedelta | None
) -> datetime | None:
    """Give the time of the next attempt, or None after the last one.

    The schedule has the wait before each attempt, in seconds; the jitter keeps targets that failed together from
    being tried together.
    """
    if attempts_made >= len(schedule):
        return None
    share = jitter_percent / 100
    wait = timedelta(seconds=schedule[attempts_made] * random.uniform(1 - share, 1 + share))  # noqa: S311  # no secret
    if retry_after is not None:
        wait = max(wait, min(retry_after, LONGEST_RETRY_AFTER))
    return now + wait


def parse_retry_after(value: str | None, now: datetime) -> timedelta | None:
    """Read the header's two forms, a number of seconds and a date; anything else is as good as none."""
    if not value:
        return None
    if value.isascii() and value.isdigit():
        # Enough digits for more than a day, and few enough to count with.
        return timedelta(seconds=int(value[:10]))
    try:
        moment = parsedate_to_datetime(value)
        # The oldest form of a date names no zone: it is UTC.
        return max(moment.replace(tzinfo=moment.tzinfo or UTC) - now, timedelta(0))
    except (TypeError, ValueError, OverflowError):
        return None
