"""The task queue that a URL names. Its storage never blocks a caller, even if the queue hangs."""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import redis
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from huey import Huey
from huey.serializer import SignedSerializer
from huey.storage import PostgresStorage, RedisStorage, SqliteStorage

from relayer_service.background.forks import ProcessState
from relayer_service.storage.caches import ONCE_MORE, RETRY_SECONDS
from relayer_service.storage.databases import POSTGRESQL_SCHEMES

logger = logging.getLogger(__name__)

QUEUE_NAME = "relayer-service"
MAX_WAITING = 1_000
# How long a process that ends waits for its remaining pushes.
FLUSH_SECONDS = 5.0


class BackgroundThread(ProcessState):
    """Run what is submitted in one thread, started at its first use and again in a forked process."""

    _started: bool

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()
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

    def reset(self) -> None:
        super().reset()
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


def create_queue(url: str) -> Huey:
    """Return the queue that a URL names. Results are not stored, so nothing has to be pruned.

    Messages are signed: otherwise whoever can write to the queue could have a worker run anything.
    """
    options: dict[str, Any] = {"results": False, "serializer": SignedSerializer(secret=settings.SECRET_KEY)}
    if url.startswith(("redis://", "rediss://", "unix://")):
        # Longer than the second that a worker waits for a task.
        timeouts = {"socket_connect_timeout": 0.5, "socket_timeout": 2}
        pool = redis.ConnectionPool.from_url(url, retry=ONCE_MORE, **timeouts)
        return Huey(QUEUE_NAME, storage_class=RedisQueue, connection_pool=pool, **options)
    if url.startswith(POSTGRESQL_SCHEMES):
        # Listening would hold one connection for each thread of each worker.
        options |= {"dsn": url, "blocking": False, "create_tables": False, "connect_timeout": 2}
        return Huey(QUEUE_NAME, storage_class=PostgresQueue, **options)
    if url.startswith("sqlite:"):
        options |= {"filename": url.removeprefix("sqlite:"), "timeout": 5, "create_tables": False}
        return Huey(QUEUE_NAME, storage_class=SqliteQueue, **options)
    raise ImproperlyConfigured("TASK_QUEUE_URL must begin with redis://, postgresql:// or sqlite:")
