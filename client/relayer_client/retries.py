"""When a request is sent again, and after which pause."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

# How long `wait` pauses between two requests; a webhook ends a pause.
FIRST_POLL_SECONDS = 0.2
MAX_POLL_SECONDS = 5.0
POLL_GROWTH = 1.5


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often a request is repeated: pauses double from `first_pause` up to `max_pause`, in seconds.

    A `Retry-After` of the service is the minimum of a pause; above `max_pause`, the error is raised at once.
    """

    attempts: int = 5
    first_pause: float = 0.5
    max_pause: float = 30.0

    def pause(self, attempt: int, retry_after: float | None = None) -> float | None:
        """Return the seconds to wait after an attempt, counted from 1; None if it was the last one."""
        minimum = retry_after or 0.0
        if attempt >= self.attempts or minimum > self.max_pause:
            return None
        backoff = min(self.first_pause * 2.0 ** (attempt - 1), self.max_pause)
        # Clients that failed together do not return together.
        return minimum + backoff * random.uniform(0.5, 1.0)  # noqa: S311  # no secret


NO_RETRIES = Retries(attempts=1)


def poll_pauses() -> Iterator[float]:
    """Yield the pauses between two readings of a transaction."""
    pause = FIRST_POLL_SECONDS
    while True:
        yield pause
        pause = min(pause * POLL_GROWTH, MAX_POLL_SECONDS)
