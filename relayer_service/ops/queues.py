"""Storages of the task queue that never block their caller, even if the queue hangs."""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from huey.storage import PostgresStorage, RedisStorage, SqliteStorage

from relayer_service.storage.caches import RETRY_SECONDS

logger = logging.getLogger(__name__)

MAX_WAITING = 1_000
# How long a process that ends waits for its remaining pushes.
FLUSH_SECONDS = 5.0


class BackgroundThread:
    """Run what is submitted in one thread, started at its first use and again in a forked process."""

    _started: bool

    def __init__(self, name: str) -> None:
        self.name = name
        self._forget()
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.flush)

    def submit(self, work: Callable[[], None]) -> bool:
        """Return at once, with False if too much is waiting."""
        with self._lock:
            if not self._started:
                threading.Thread(target=self._run, args=[self._waiting], name=self.name, daemon=True).start()
                self._started = True
        try:
            self._waiting.put_nowait(work)
        except queue.Full:
            return False
        return True

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Wait until all that was submitted has run, for at most about this long."""
        done = threading.Event()
        with suppress(queue.Full):
            if self._started:
                self._waiting.put(done.set, timeout=seconds)
                done.wait(seconds)

    @staticmethod
    def _run(waiting: queue.Queue[Callable[[], None]]) -> None:
        while True:
            waiting.get()()

    def _forget(self) -> None:
        # The lock too: a thread that a forked process does not have may hold it.
        self._lock = threading.Lock()
        self._waiting: queue.Queue[Callable[[], None]] = queue.Queue(MAX_WAITING)
        self._started = False


background = BackgroundThread("task-queue")


class InBackground:
    """A mixin that has a storage write in the background.

    A push is only a hint (`tasks.py`) and can be dropped: after a failure nothing is pushed for a few seconds, as with
    the cache. Failures are logged once for each such pause.
    """

    down_until = 0.0

    def enqueue(self, data: bytes, priority: float | None = None) -> None:
        push = partial(super().enqueue, data, priority)  # type: ignore[misc]  # of the storage
        if not self._is_down() and not background.submit(partial(self._attempt, push)):
            self._pause("too many pushes wait")

    def _attempt(self, push: Callable[[], Any]) -> None:
        if self._is_down():
            return
        try:
            push()
        except Exception as error:
            self._pause(type(error).__name__)

    def _is_down(self) -> bool:
        return time.monotonic() < self.down_until

    def _pause(self, reason: str) -> None:
        self.down_until = time.monotonic() + RETRY_SECONDS
        logger.error("The task queue cannot be written to (%s): work waits until it can", reason)


class RedisQueue(InBackground, RedisStorage): ...


class PostgresQueue(InBackground, PostgresStorage): ...


class SqliteQueue(InBackground, SqliteStorage): ...
