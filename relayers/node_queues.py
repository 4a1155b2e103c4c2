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
NodeSet = tuple[str, str]


class NodeQueues:
    """Batches of relayers that are read from their nodes, in a queue for each set of nodes.

    A queue never holds more threads than are free: however many relayers are on nodes that hang, half of the threads
    are left to a second queue, and a queue that holds none gets the last one. What waits in a queue is claimed
    already, and no more of its relayers are claimed meanwhile.
    """

    def __init__(self, pool: Executor, threads: int, read: Read) -> None:
        self.running: dict[Future[list[Any]], NodeSet] = {}
        self._pool, self._threads, self._read = pool, threads, read
        self._waiting: dict[NodeSet, deque[Batch]] = defaultdict(deque)

    @property
    def free(self) -> int:
        return self._threads - len(self.running)

    def waiting(self) -> Q:
        """Return the condition for relayers of queues in which batches wait; without any, one that none fulfils."""
        condition = Q(pk__in=[])
        for network, nodes in self._waiting:
            condition |= Q(network=network, masked_rpc_urls=json.loads(nodes))
        return condition

    def add(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self._waiting[_node_set(batch[0])].append(batch)
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
        for nodes, batches in list(self._waiting.items()):
            while batches and held[nodes] < self.free:
                self.running[self._pool.submit(self._read, batches.popleft())] = nodes
                held[nodes] += 1
            if not batches:
                del self._waiting[nodes]


def _node_set(relayer: Relayer) -> NodeSet:
    return relayer.network, json.dumps(relayer.masked_rpc_urls)
