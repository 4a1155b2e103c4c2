"""Outstanding attempts: their results are not written yet, so they are repeated if the worker is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

MAX_OUTSTANDING = 64
# A target that has not responded by then counts as hanging, and must not delay others.
SLOW_SECONDS = 1


class Outstanding:
    """The places for attempts of one event loop, each held from the send until the result is written."""

    def __init__(self) -> None:
        self.count = 0
        # In order of arrival; each is called again when a place is free.
        self._waiting: dict[Callable[[], None], None] = {}

    def take(self, retry: Callable[[], None]) -> Place | None:
        """Return a place; if all are taken, return None and call `retry` when one is free."""
        if self.count >= MAX_OUTSTANDING:
            self._waiting[retry] = None
            return None
        return Place(self)

    def leave(self) -> None:
        self.count -= 1
        while self._waiting and self.count < MAX_OUTSTANDING:
            retry = next(iter(self._waiting))
            del self._waiting[retry]
            retry()


class Place:
    """The place of one attempt. It is released while its target hangs, and taken again when the target responds."""

    def __init__(self, outstanding: Outstanding) -> None:
        self._outstanding = outstanding
        self._outstanding.count += 1
        self._is_held = True
        self._timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._leave)

    def answered(self) -> None:
        """Hold the place until the result is written, even beyond the maximum."""
        self._timer.cancel()
        if not self._is_held:
            self._outstanding.count += 1
            self._is_held = True

    def free(self) -> None:
        self._timer.cancel()
        self._leave()

    def _leave(self) -> None:
        if self._is_held:
            self._is_held = False
            self._outstanding.leave()
