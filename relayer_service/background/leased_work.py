"""Work on due rows: claimed under a lease, run in fairly shared threads, written in batches."""

import json
import logging
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter
from typing import Any, Generic, TypeVar

from django.db import DatabaseError
from django.db.models import Q

from relayer_service.background.pools import Pool
from relayer_service.storage.leases import Leased, LeasedQuerySet

logger = logging.getLogger(__name__)

# How often due rows are claimed while others are in progress.
POLL_SECONDS = 1

Row = TypeVar("Row", bound=Leased)
Result = TypeVar("Result")
# The values of `queue_columns`, as JSON.
QueueKey = tuple[str, ...]


@dataclass(frozen=True)
class LeasedWork(Generic[Row, Result]):
    """One kind of work on due rows. Rows whose work or write fails are due again when their lease ends."""

    pool_name: str
    threads: Callable[[], int]
    rows: Callable[[], LeasedQuerySet]
    # The lease is longer than the slowest batch and its write.
    lease_length: Callable[[], timedelta]
    # Rows with equal values in these columns wait for the same servers, such as nodes, and share a queue.
    queue_columns: Sequence[str]
    # Splits claimed rows; a batch joins the queue of its first row.
    batches: Callable[[list[Row]], Iterable[list[Row]]]
    run: Callable[[list[Row]], list[Result]]
    # Writes the results of one batch, in a transaction and only to rows whose lease is held (`LeasedQuerySet.held`).
    write: Callable[[list[Result]], None]
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def run_due(self) -> int:
        """Process due rows until there are none, and return their number."""
        # One thread per process at a time, so that hanging servers do not block all threads of a worker.
        if not self._lock.acquire(blocking=False):
            return 0
        claimed = 0
        try:
            with Pool(self.pool_name, self.threads()) as pool:
                queues = FairQueues(pool, self.threads(), self.queue_columns, self._run)
                while True:
                    # At most one row per free thread, as each row may be a batch.
                    rows = self.rows().exclude(queues.waiting()).claim(queues.free, self.lease_length())
                    queues.add(self.batches(rows))
                    claimed += len(rows)
                    if not queues.running:
                        return claimed
                    for results in queues.finished(0 if rows else POLL_SECONDS):
                        self._write(results)
        finally:
            self._lock.release()

    def _run(self, batch: list[Row]) -> list[Result]:
        try:
            return self.run(batch)
        except Exception:
            logger.exception("Processing %d rows failed (%s)", len(batch), self.pool_name)
            return []

    def _write(self, results: list[Result]) -> None:
        try:
            self.write(results)
        except DatabaseError:
            logger.exception("Writing the results of %d rows failed (%s)", len(results), self.pool_name)


class FairQueues:
    """Shares the threads of a pool between queues of batches, so that slow queues do not delay others.

    A queue never holds more threads than are free: however many of its rows hang, half of the threads remain for a
    second queue, and the last one for a queue that holds none. Waiting batches are already claimed; until they start,
    no more rows of their queue are claimed.
    """

    def __init__(
        self, pool: Executor, threads: int, columns: Sequence[str], run: Callable[[list[Any]], list[Any]]
    ) -> None:
        self.running: dict[Future[list[Any]], QueueKey] = {}
        self._pool, self._threads, self._columns, self._run = pool, threads, columns, run
        self._waiting: dict[QueueKey, deque[list[Any]]] = defaultdict(deque)

    @property
    def free(self) -> int:
        return self._threads - len(self.running)

    def waiting(self) -> Q:
        condition = Q(pk__in=[])
        for key in self._waiting:
            condition |= Q(*zip(self._columns, map(json.loads, key), strict=True))
        return condition

    def add(self, batches: Iterable[list[Any]]) -> None:
        for batch in batches:
            key = tuple(json.dumps(attrgetter(column.replace("__", "."))(batch[0])) for column in self._columns)
            self._waiting[key].append(batch)
        self._start()

    def finished(self, seconds: float) -> Iterator[list[Any]]:
        """Yield the results of finished batches, after waiting for the first one for at most this long."""
        done, _ = wait(self.running, seconds, FIRST_COMPLETED)
        for future in done:
            del self.running[future]
        self._start()
        for future in done:
            yield future.result()

    def _start(self) -> None:
        held = Counter(self.running.values())
        for key, batches in list(self._waiting.items()):
            while batches and held[key] < self.free:
                self.running[self._pool.submit(self._run, batches.popleft())] = key
                held[key] += 1
            if not batches:
                del self._waiting[key]
