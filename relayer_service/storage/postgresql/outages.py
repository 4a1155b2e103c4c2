"""Whether PostgreSQL is away: a verdict of the process, from its last attempt to connect.

While PostgreSQL is away, one attempt is made in each RETRY_SECONDS. Everybody else fails at once, instead of waiting
for a connection that cannot be made.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
# Texts, as libpq has no error codes for connections. Such a server works: others will return a connection.
FULL = ("too many clients", "too many connections", "remaining connection slots")


class Outage:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        self.is_away = False
        self.retry_at = 0.0

    def require_none(self) -> None:
        """Raise OperationalError while PostgreSQL is away and it is not yet time for another attempt."""
        if self.is_away and time.monotonic() < self.retry_at:
            raise psycopg.OperationalError("PostgreSQL was away a moment ago.")

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Record how an attempt to connect ends, or raise OperationalError if it is too early for one."""
        with self._lock:
            self.require_none()
            self.retry_at = time.monotonic() + RETRY_SECONDS
        try:
            yield
        except psycopg.OperationalError as error:
            if not any(text in str(error) for text in FULL):
                self._record(is_away=True, reason=str(error))
            raise
        self._record(is_away=False)

    def _record(self, *, is_away: bool, reason: str = "") -> None:
        with self._lock:
            changed, self.is_away = is_away != self.is_away, is_away
            self.retry_at = time.monotonic() + RETRY_SECONDS
        if changed and is_away:
            logger.error("PostgreSQL is away: %s", reason)
        elif changed:
            logger.warning("PostgreSQL is back")


outage = Outage()


class Connection(psycopg.Connection[Any]):
    """A connection of the pool, which records whether PostgreSQL could be connected to."""

    @classmethod
    def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:
        with outage.attempt():
            return super().connect(conninfo, **kwargs)
