"""Shares of the web threads: how many of a process's threads requests of one kind may occupy at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from fractions import Fraction

from django.conf import settings

from relayer_service.storage.databases import release_connection

# What whoever is refused as all threads are in use, or as the database is away, is told to wait.
RETRY_AFTER_SECONDS = 5


class Busy(Exception):
    """All threads that such a request may occupy are in use: the same request may succeed in a moment."""


class ThreadShare:
    """A part of the web threads, or of a larger share of them."""

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
        """Count this thread to the share; raise `Busy` if there are as many already."""
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


# Requests that wait for nodes or signers: slow ones leave threads for all others.
WAITING = ThreadShare(Fraction(3, 4))
# The same without JSON-RPC calls, for which most of these threads are reserved.
WAITING_BESIDE_CALLS = ThreadShare(Fraction(1, 4), within=WAITING)
# Signing in hashes a password, which is slow on purpose.
SIGNING_IN = ThreadShare(Fraction(1, 16))


@contextmanager
def waiting_for_others() -> Iterator[None]:
    """Wait for nodes or signers: in a share of the threads, and without a database connection."""
    with WAITING_BESIDE_CALLS.occupied():
        release_connection()
        yield
