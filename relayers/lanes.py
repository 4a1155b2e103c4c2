"""The threads of a round of health checks, shared between nodes so that slow ones do not delay other checks."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Any

from django.db.models import Q

from relayers.models import Relayer

Batch = list[Relayer]
Read = Callable[[Batch], list[Any]]
# The network, and the hosts of custom nodes, whatever follows in their URLs.
Lane = tuple[str, str]


class Lanes:
    """Batches of relayers that are read from their nodes, in a lane for each set of nodes.

    A lane never holds more threads than are free: however many relayers are on nodes that hang, half of the threads
    are left to a second lane, and a lane that holds none gets the last one. What has to wait in a lane is claimed
    already, and no more of that lane is claimed meanwhile.
    """

    def __init__(self, pool: Executor, threads: int, read: Read) -> None:
        self.running: dict[Future[list[Any]], Lane] = {}
        self._pool, self._threads, self._read = pool, threads, read
        self._waiting: dict[Lane, deque[Batch]] = defaultdict(deque)

    @property
    def free(self) -> int:
        return self._threads - len(self.running)

    def waiting(self) -> Q:
        """Return the condition for relayers of lanes in which batches wait; without any, one that none fulfils."""
        condition = Q(pk__in=[])
        for network, nodes in self._waiting:
            condition |= Q(network=network, masked_rpc_urls=json.loads(nodes))
        return condition

    def add(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self._waiting[_lane(batch[0])].append(batch)
        self._start()

    def finished(self, seconds: float) -> Iterator[list[Any]]:
        """Yield what was read of each batch that has ended, once one has or after so many seconds."""
        done, _ = wait(self.running, seconds, FIRST_COMPLETED)
        for future in done:
            del self.running[future]
        self._start()
        for future in done:
            yield future.result()

    def _start(self) -> None:
        held = Counter(self.running.values())
        for lane, batches in list(self._waiting.items()):
            while batches and held[lane] < self.free:
                self.running[self._pool.submit(self._read, batches.popleft())] = lane
                held[lane] += 1
            if not batches:
                del self._waiting[lane]


def _lane(relayer: Relayer) -> Lane:
    return relayer.network, json.dumps(relayer.masked_rpc_urls)
