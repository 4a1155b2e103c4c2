"""The retry schedule: when a delivery is attempted next."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

# A target may ask for a longer wait than the schedule has, up to the longest one of the default schedule.
MAX_RETRY_AFTER = timedelta(days=1)


def next_attempt(
    schedule: Sequence[int], jitter_percent: int, attempts_made: int, now: datetime, retry_after: timedelta | None
) -> datetime | None:
    """Return the time of the next attempt, or None after the last one.

    The schedule has the wait before each attempt, in seconds; the jitter keeps targets that failed together from
    being attempted together.
    """
    if attempts_made >= len(schedule):
        return None
    share = jitter_percent / 100
    wait = timedelta(seconds=schedule[attempts_made] * random.uniform(1 - share, 1 + share))  # noqa: S311  # no secret
    if retry_after is not None:
        wait = max(wait, min(retry_after, MAX_RETRY_AFTER))
    return now + wait
