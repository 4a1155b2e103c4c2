"""What is read again and again until it is done."""

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from relayer_client import errors
from relayer_client.retries import poll_pauses

Item = TypeVar("Item")
WAIT_SECONDS = 300.0
# What is left of a timeout is too short for another reading.
MIN_READING_SECONDS = 0.05
# The limit of the readings if the timeout is 0.
READ_ONCE_SECONDS = 1.0


def deadlines(timeout: float) -> tuple[float, float]:
    """Return until when to wait and until when to read: once, also with a timeout of 0 or less."""
    now = time.monotonic()
    return now + timeout, now + (timeout if timeout > 0 else READ_ONCE_SECONDS)


async def poll(
    read: Callable[[], Awaitable[Item]],
    is_done: Callable[[Item], bool],
    expired: Callable[[Item | None], Exception],
    pause: Callable[[float], Awaitable[bool]],
    deadline: float,
) -> Item:
    """Return what `read` returns by a deadline, once it is done; raise what `expired` returns for the last reading.

    It is read with growing pauses, which start over if `pause` returns True. Outages of the service are waited out.
    """
    current: Item | None = None
    pauses = poll_pauses()
    while True:
        cause: Exception | None = None
        try:
            current = await read()
        except errors.TRANSIENT as error:
            cause = error
        if current is not None and is_done(current):
            return current
        left = deadline - time.monotonic()
        if left <= MIN_READING_SECONDS:
            raise expired(current) from cause
        # The last reading begins before the deadline.
        if await pause(min(next(pauses), left * 0.9)):
            pauses = poll_pauses()
