"""Threads and other processes in tests: begin together, and wait for what they do.

Every wait is polled and ends at once when all is well; its limit is for a busy machine, on which all takes long.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from django.core.cache import caches
from django.core.cache.backends.redis import RedisCache
from django.db import connection, connections

PATIENCE_SECONDS = 600


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)


def waits_for_a_lock() -> bool:
    """Whether a statement of another connection waits for a lock; SQLite lets one writer in, and does not say."""
    if connection.vendor != "postgresql":
        return True
    with connection.cursor() as cursor:
        # Within a transaction, it would show what it showed first.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


def waits_for_this_connection() -> bool:
    """Whether a statement of another connection waits for a lock that this connection has; PostgreSQL only."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        )
        return bool(cursor.fetchone()[0])


def in_threads(*works: Callable[[], Any]) -> list[Any]:
    """Run works in threads that begin together, and return their results in the order of the works."""
    barrier = threading.Barrier(len(works))
    results: dict[int, Any] = {}

    def run(number: int) -> None:
        try:
            barrier.wait()
            results[number] = works[number]()
        finally:
            connections.close_all()
            disconnect_caches()

    threads = [threading.Thread(target=run, args=[number]) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == len(works)
    return [results[number] for number in range(len(works))]


def disconnect_caches() -> None:
    """Close the connections of this thread's caches: those of an ended thread stay open until they are collected."""
    for each in caches.all(initialized_only=True):
        if isinstance(each, RedisCache):
            each._cache.get_client(write=True).connection_pool.disconnect()
