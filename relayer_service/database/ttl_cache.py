"""A cache within a process: values that expire, shared by its threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

MAX_ENTRIES = 10_000

_caches: WeakSet[TTLCache[Any, Any]] = WeakSet()


class TTLCache(Generic[Key, Value]):
    """Values by key, each with its own lifetime; when full, a new value evicts the oldest.

    Threads share the values: use immutable ones. `None` is a missing value and cannot be stored.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        # By key, oldest first: the time of expiry, and the value.
        self._entries: dict[Key, tuple[float, Value]] = {}
        self._lock = threading.RLock()
        self._removals = 0
        _caches.add(self)

    def __len__(self) -> int:
        return len(self._entries)

    def count(self) -> int:
        now = time.monotonic()
        with self._lock:
            return sum(now < expires_at for expires_at, _ in self._entries.values())

    def get(self, key: Key) -> Value | None:
        entry = self._entries.get(key)
        return entry[1] if entry is not None and time.monotonic() < entry[0] else None

    def set(self, key: Key, value: Value, seconds: float) -> None:
        with self._lock:
            self._entries.pop(key, None)
            if seconds > 0:
                self._entries[key] = (time.monotonic() + seconds, value)
            while len(self._entries) > self._max_entries:
                del self._entries[next(iter(self._entries))]

    def get_or_read(self, key: Key, read: Callable[[], Value], seconds: float) -> Value:
        """Return the value of a key, read if it is missing."""
        if (cached := self.get(key)) is not None:
            return cached
        removals = self._removals
        value = read()
        with self._lock:
            # A value that was read during a removal may be the one to remove.
            if removals == self._removals:
                self.set(key, value, seconds)
        return value

    def remove(self, key: Key) -> None:
        with self._lock:
            self._removals += 1
            self._entries.pop(key, None)

    def remove_where(self, condition: Callable[[Value], bool]) -> None:
        with self._lock:
            self._removals += 1
            self._entries = {key: entry for key, entry in self._entries.items() if not condition(entry[1])}

    def clear(self) -> None:
        self.remove_where(lambda value: True)


def clear_all() -> None:
    """Empty every cache of the process, for tests."""
    for cache in _caches:
        cache.clear()
