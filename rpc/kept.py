"""What is read for many and kept for a while: of all who want it at once, one reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Value = TypeVar("Value")

MOST_KEPT = 10_000


class Slot(Generic[Value]):
    """The place of one value. Whoever it was given to first has to fill it, or to say why not."""

    def __init__(self, drop: Callable[[], None]) -> None:
        self._drop = drop
        self._future: Future[Value] = Future()
        self._expires = 0.0

    @property
    def is_usable(self) -> bool:
        """Tell whether it has a value that still holds, or will have one."""
        return not self._future.done() or self._expires > time.monotonic()

    def fill(self, value: Value, seconds: float) -> None:
        self._expires = time.monotonic() + seconds
        self._future.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Let those who wait fail alike. Nothing of it stays: an error holds on to all that led to it."""
        if not self._future.done():
            self._drop()
            self._future.set_exception(error)

    def wait(self, seconds: float | None = None) -> Value:
        return self._future.result(seconds)


class Kept(Generic[Value]):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[Hashable, Slot[Value]] = {}

    def take(self, key: Hashable) -> tuple[Slot[Value], bool]:
        """Give the slot of a key, and whether it is the caller's to fill."""
        with self._lock:
            slot = self._slots.get(key)
            if slot is not None and slot.is_usable:
                return slot, False
            if len(self._slots) >= MOST_KEPT:
                self._slots = {key: slot for key, slot in self._slots.items() if slot.is_usable}
            slot = self._slots[key] = Slot(lambda: self._drop(key))
            return slot, True

    def get(self, key: Hashable, read: Callable[[], Value], seconds: float) -> Value:
        """Give the value of a key, which the first who wants it reads."""
        slot, is_mine = self.take(key)
        if not is_mine:
            return slot.wait()
        try:
            value = read()
        except BaseException as error:
            slot.fail(error)
            raise
        slot.fill(value, seconds)
        return value

    def clear(self) -> None:
        with self._lock:
            self._slots.clear()

    def _drop(self, key: Hashable) -> None:
        with self._lock:
            self._slots.pop(key, None)
