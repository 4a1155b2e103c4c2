"""Outages of PostgreSQL, by the last attempt of the process to connect.

During an outage one attempt is made every RETRY_SECONDS. All other requests fail immediately instead of waiting.
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
# Errors of a server that works but has no free connection; libpq has no error codes for them.
FULL = ("too many clients", "too many connections", "remaining connection slots")


class Outage:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        self.is_down = False
        self.retry_at = 0.0

    def require_none(self) -> None:
        """Raise OperationalError during an outage, until the next attempt is due."""
        if self.is_down and time.monotonic() < self.retry_at:
            raise psycopg.OperationalError("PostgreSQL is unavailable; waiting before the next connection attempt.")

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Record the outcome of an attempt to connect; raise OperationalError if none is due."""
        with self._lock:
            self.require_none()
            self.retry_at = time.monotonic() + RETRY_SECONDS
        try:
            yield
        except psycopg.OperationalError as error:
            if not any(text in str(error) for text in FULL):
                self._record(is_down=True, reason=str(error))
            raise
        self._record(is_down=False)

    def _record(self, *, is_down: bool, reason: str = "") -> None:
        with self._lock:
            changed, self.is_down = is_down != self.is_down, is_down
            self.retry_at = time.monotonic() + RETRY_SECONDS
        if changed and is_down:
            logger.error("PostgreSQL is unavailable: %s", reason)
        elif changed:
            logger.warning("PostgreSQL is available again")


outage = Outage()


class Connection(psycopg.Connection[Any]):
    @classmethod
    def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:
        with outage.attempt():
            return super().connect(conninfo, **kwargs)
