"""Copies of broadcasts to further nodes, in the background: their answers count only for the circuit breakers."""

from collections.abc import Sequence

from django.conf import settings

from chain import breakers, send_attempts
from chain.nodes import note
from chain.send_attempts import SignedTransaction
from relayer_service.background.pools import Pool, ProcessState

THREADS = 4
# Copies beyond are dropped: a node that hangs must not delay others for long, nor use up the memory.
MAX_WAITING = 64


def spread(urls: Sequence[str], count: int, transactions: Sequence[SignedTransaction], chain_id: int | None) -> None:
    """Send transactions to the first of these nodes that are neither paused nor taken out, without waiting for it."""
    if urls and count > 0:
        _copies.submit(list(urls), count, list(transactions), chain_id)


class _Copies(ProcessState):
    """The threads of this process, started on first use."""

    def reset(self) -> None:
        super().reset()
        self._pool: Pool | None = None
        self._waiting = 0

    def submit(self, urls: list[str], count: int, transactions: list[SignedTransaction], chain_id: int | None) -> None:
        with self._lock:
            if self._waiting >= MAX_WAITING:
                return
            self._waiting += 1
            if self._pool is None:
                self._pool = Pool("broadcast-copies", THREADS)
            self._pool.submit(self._run, urls, count, transactions, chain_id)

    def _run(self, urls: list[str], count: int, transactions: list[SignedTransaction], chain_id: int | None) -> None:
        try:
            _copy(urls, count, transactions, chain_id)
        finally:
            with self._lock:
                self._waiting -= 1


def _copy(urls: list[str], count: int, transactions: list[SignedTransaction], chain_id: int | None) -> None:
    avoided = breakers.avoided(urls, chain_id)
    for url in [url for url in urls if url not in avoided][:count]:
        verdicts = send_attempts.attempt(
            url, transactions, chain_id, settings.NODE_ATTEMPT_SECONDS, one_at_a_time=False
        )
        for fault in [verdict.fault for verdict in verdicts if verdict.fault][:1]:
            note(url, fault, chain_id)


_copies = _Copies()
