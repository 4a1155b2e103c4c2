"""The retry schedule: when a delivery is attempted next."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

# By which share a wait is longer or shorter, so that targets that failed together are not attempted together.
JITTER = 0.1
# A target may ask for a longer wait than the schedule has, up to the longest one of the default schedule.
MAX_RETRY_AFTER = timedelta(days=1)


def next_attempt(
    schedule: Sequence[int], attempts_made: int, now: datetime, retry_after: timedelta | None = None
) -> datetime | None:
    """Return the time of the next attempt, or None after the last; a schedule has the wait before each, in seconds."""
    if attempts_made >= len(schedule):
        return None
    wait = timedelta(seconds=schedule[attempts_made] * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311  # no secret
    if retry_after is not None:
        wait = max(wait, min(retry_after, MAX_RETRY_AFTER))
    return now + wait
