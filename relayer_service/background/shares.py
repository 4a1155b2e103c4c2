"""Shares of the web threads: how many threads of a process one kind of request may occupy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from fractions import Fraction

from django.conf import settings

from relayer_service.database.access import release_connection

# `Retry-After` of responses that were rejected for lack of threads or of a database.
RETRY_AFTER_SECONDS = 5


class Busy(Exception):
    """All threads of the share are in use. Retrying the request soon may succeed."""


class ThreadShare:
    def __init__(self, part: Fraction, within: ThreadShare | None = None) -> None:
        self.part = part
        self.within = within
        self._in_use = 0
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        return max(1, int(settings.WEB_THREADS * self.part))

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """Occupy a thread of the share, or raise `Busy` if all are in use."""
        with self.within.occupied() if self.within else nullcontext():
            with self._lock:
                if self._in_use >= self.size:
                    raise Busy
                self._in_use += 1
            try:
                yield
            finally:
                with self._lock:
                    self._in_use -= 1


# Requests that wait for nodes or signers, so that slow ones leave threads for all others.
WAITING = ThreadShare(Fraction(3, 4))
# JSON-RPC calls, and all others: each leaves threads for the other.
CALLS = ThreadShare(Fraction(5, 8), within=WAITING)
WAITING_BESIDE_CALLS = ThreadShare(Fraction(1, 4), within=WAITING)
# Signing in hashes a password, which is slow by design.
SIGNING_IN = ThreadShare(Fraction(1, 16))


@contextmanager
def waiting_for_others() -> Iterator[None]:
    """Hold a thread of the share for waiting requests, and release the database connection."""
    with WAITING_BESIDE_CALLS.occupied():
        release_connection()
        yield
