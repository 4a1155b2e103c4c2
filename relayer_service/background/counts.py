"""Counts that add up in the memory of a process; a thread writes them every few seconds, and the exit the rest.

So counting costs a request no query; a killed process loses its last seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

from django.db import close_old_connections

from relayer_service.background.pools import ProcessState, at_exit

logger = logging.getLogger(__name__)

WRITE_SECONDS = 2
BATCH_SIZE = 500
# At most this many rows stay in memory while the database is down.
MAX_ROWS = 20_000


class Addable(Protocol):
    def add(self, other: Self) -> None: ...


# The second part of a key is the time that it belongs to.
Key = TypeVar("Key", bound=tuple[Any, ...])
Sums = TypeVar("Sums", bound=Addable)


class PendingCounts(ProcessState, Generic[Key, Sums]):
    """The unwritten counts of this process; a forked process starts with none."""

    def __init__(
        self,
        name: str,
        write: Callable[[Sequence[tuple[Key, Sums]]], None],
        *,
        after: Callable[[], None] = lambda: None,
        seconds: float = WRITE_SECONDS,
    ) -> None:
        """Write batches with `write`; the thread then runs `after`, with counts or without."""
        self._name, self._write, self._after, self._seconds = name, write, after, seconds
        # Tests disable it and flush explicitly.
        self.writes_by_itself = True
        super().__init__()
        at_exit.callback(self.flush_and_close)

    def reset(self) -> None:
        super().reset()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._sums: dict[Key, Sums] = {}

    def add(self, key: Key, sums: Sums) -> None:
        with self._lock:
            self._add(key, sums)
            if self.writes_by_itself and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._write_forever, name=self._name, daemon=True)
                self._thread.start()

    def _add(self, key: Key, sums: Sums) -> None:
        if (known := self._sums.get(key)) is None:
            self._sums[key] = sums
        else:
            known.add(sums)

    def flush(self) -> None:
        """Write the counts; those that cannot be written wait for the next run."""
        with self._writing:
            with self._lock:
                taken, self._sums = self._sums, {}
            rows = list(taken.items())
            try:
                while rows:
                    self._write(rows[:BATCH_SIZE])
                    del rows[:BATCH_SIZE]
            except Exception:
                logger.exception("Cannot write the %s; will retry", self._name)
                self._put_back(rows)

    def flush_and_close(self) -> None:
        self.flush()
        close_old_connections()

    def _put_back(self, rows: Sequence[tuple[Key, Sums]]) -> None:
        with self._lock:
            newer, self._sums = self._sums, dict(rows)
            for key, sums in newer.items():
                self._add(key, sums)
            excess = len(self._sums) - MAX_ROWS
            if excess <= 0:
                return
            for key in sorted(self._sums, key=lambda key: key[1])[:excess]:
                del self._sums[key]
        logger.error("Dropped the oldest %s, as they cannot be written: %d rows", self._name, excess)

    def _write_forever(self) -> None:
        while True:
            time.sleep(self._seconds)
            self.flush()
            try:
                self._after()
            except Exception:
                logger.exception("Cannot complete the writing of the %s; will retry", self._name)
            close_old_connections()
