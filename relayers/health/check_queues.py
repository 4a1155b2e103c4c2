"""Queues of batches to check, which share the threads of a process so that nodes that hang do not delay others."""

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Any

from django.db.models import Q

from relayers.models import RelayerHealth

Batch = list[RelayerHealth]
# The network, and the masked URLs of custom nodes as JSON: relayers with equal ones wait for the same nodes.
Key = tuple[str, str]


class CheckQueues:
    """A queue never holds more threads than are free.

    However many of its batches hang, half of the threads remain for a second queue, and the last one for a queue that
    holds none. Waiting batches are already claimed; until they start, no more rows of their queue are claimed.
    """

    def __init__(self, pool: Executor, threads: int, run: Callable[[Batch], list[Any]]) -> None:
        self.running: dict[Future[list[Any]], Key] = {}
        self._pool, self._threads, self._run = pool, threads, run
        self._waiting: dict[Key, deque[Batch]] = defaultdict(deque)

    @property
    def free(self) -> int:
        return self._threads - len(self.running)

    def waiting(self) -> Q:
        condition = Q(pk__in=[])
        for network, urls in self._waiting:
            condition |= Q(relayer__network=network, relayer__masked_rpc_urls=json.loads(urls))
        return condition

    def add(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            relayer = batch[0].relayer
            self._waiting[relayer.network, json.dumps(relayer.masked_rpc_urls)].append(batch)
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
