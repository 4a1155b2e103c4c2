"""The task queue that a URL names. A push never blocks its caller, even if the queue hangs."""

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

from relayer_service.background.pools import ProcessState, at_exit
from relayer_service.database.access import POSTGRESQL_SCHEMES
from relayer_service.database.caches import ONCE_MORE, RETRY_SECONDS

logger = logging.getLogger(__name__)

QUEUE_NAME = "relayer-service"
MAX_WAITING = 1_000
# How long an exiting process waits for its remaining pushes.
FLUSH_SECONDS = 5.0


class BackgroundThread(ProcessState):
    """Runs submitted functions in one thread, started on first use and restarted in a forked process."""

    _started: bool

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()
        at_exit.callback(self.flush)

    def submit(self, work: Callable[[], None]) -> bool:
        """Queue a function without blocking, and return False if too many are waiting."""
        with self._lock:
            if not self._started:
                threading.Thread(target=self._run, args=[self._waiting], name=self.name, daemon=True).start()
                self._started = True
        with suppress(queue.Full):
            self._waiting.put_nowait(work)
            return True
        return False

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Wait until all submitted functions have run, for about this long at most."""
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
    """Pushes in the background. After a failure, which is logged, it drops pushes for a few seconds (`tasks.py`)."""

    down_until = 0.0

    def enqueue(self, data: bytes, priority: float | None = None) -> None:
        push = partial(super().enqueue, data, priority)  # type: ignore[misc]  # of the storage
        if not self._is_down() and not background.submit(partial(self._attempt, push)):
            self._pause("too many pushes are waiting")

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
        logger.error("Cannot write to the task queue (%s): work is delayed", reason)


class TaskQueue(Huey):
    """A queue without what nothing here uses: tasks that are revoked, for which each would call the storage twice.

    Nor are there locks, rate limits or chords of tasks, which delete their keys.
    """

    def is_revoked(self, *args: Any, **options: Any) -> bool:
        return False

    def delete(self, key: str) -> None: ...


class RedisQueue(InBackground, RedisStorage): ...


class PostgresQueue(InBackground, PostgresStorage): ...


class SqliteQueue(InBackground, SqliteStorage): ...


def create_queue(url: str) -> TaskQueue:
    # Messages are signed, as they are unpickled: otherwise write access to the queue would allow a client to run code.
    options: dict[str, Any] = {"results": False, "serializer": SignedSerializer(secret=settings.SECRET_KEY)}
    if url.startswith(("redis://", "rediss://", "unix://")):
        # The timeout is longer than the second for which a worker waits for a task.
        timeouts = {"socket_connect_timeout": 0.5, "socket_timeout": 2}
        pool = redis.ConnectionPool.from_url(url, retry=ONCE_MORE, **timeouts)
        return TaskQueue(QUEUE_NAME, storage_class=RedisQueue, connection_pool=pool, **options)
    if url.startswith(POSTGRESQL_SCHEMES):
        # LISTEN would hold one connection per worker thread.
        options |= {"dsn": url, "blocking": False, "create_tables": False, "connect_timeout": 2}
        return TaskQueue(QUEUE_NAME, storage_class=PostgresQueue, **options)
    if url.startswith("sqlite:"):
        options |= {"filename": url.removeprefix("sqlite:"), "timeout": 5, "create_tables": False}
        return TaskQueue(QUEUE_NAME, storage_class=SqliteQueue, **options)
    raise ImproperlyConfigured("TASK_QUEUE_URL must begin with redis://, postgresql:// or sqlite:")
