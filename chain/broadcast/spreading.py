"""Copies of broadcasts to further nodes, in the background: their answers count only for the circuit breakers."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from chain.broadcast import send_attempts
from chain.broadcast.send_attempts import Allowed, Batch
from chain.nodes import attempts, breakers
from chain.nodes.failover import note
from relayer_service.background.pools import Pool, ProcessState

logger = logging.getLogger(__name__)

THREADS = 4
# Copies beyond are dropped: a node that hangs must not delay others for long, nor use up the memory.
MAX_WAITING = 64


def spread(urls: Sequence[str], count: int, batch: Batch, chain_id: int | None, allowed: Allowed = None) -> None:
    """Send transactions to the first of these nodes that are neither paused nor taken out, without waiting for it."""
    if urls and count > 0:
        _copies.submit(partial(_copy, list(urls), count, list(batch), chain_id, allowed))


class _Copies(ProcessState):
    """The threads of this process, started on first use."""

    def reset(self) -> None:
        super().reset()
        self._pool: Pool | None = None
        self._waiting = 0

    def submit(self, copy: Callable[[], None]) -> None:
        with self._lock:
            if self._waiting >= MAX_WAITING:
                return
            self._waiting += 1
            if self._pool is None:
                self._pool = Pool("broadcast-copies", THREADS)
            self._pool.submit(self._run, copy)

    def _run(self, copy: Callable[[], None]) -> None:
        try:
            copy()
        except Exception:
            # Nobody waits for it.
            logger.exception("A transaction could not be copied to a second node")
        finally:
            with self._lock:
                self._waiting -= 1


def _copy(urls: list[str], count: int, batch: Batch, chain_id: int | None, allowed: Allowed) -> None:
    avoided = breakers.avoided(urls, chain_id)
    for url in [url for url in urls if url not in avoided][:count]:
        replies = send_attempts.attempt(
            url, batch, chain_id, attempts.ATTEMPT_SECONDS, one_at_a_time=False, allowed=allowed
        )
        for fault in [reply.fault for reply in replies if reply.fault][:1]:
            note(url, fault, chain_id)


_copies = _Copies()
