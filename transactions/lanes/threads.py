"""Where the blocking work of turns runs: in threads of a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from django.db import close_old_connections

from relayer_service.background.pools import Pool

Result = TypeVar("Result")

# The share of a pool that one signer or one set of nodes can occupy: others go on while it hangs.
SHARE = 4


class Threads(Protocol):
    async def database(self, function: Callable[..., Result], *args: Any) -> Result:
        """Return the result of a function that uses the database."""

    async def node(self, key: Hashable, function: Callable[..., Result], *args: Any) -> Result:
        """Return the result of a function that calls nodes; the key identifies them."""

    async def signers(
        self, key: Hashable, functions: Sequence[Callable[[], Result]], *, is_local: bool = False
    ) -> list[Result | BaseException]:
        """Return the results of functions that use a signer, or their exceptions; the key identifies it."""


class FairPool:
    """A thread pool in which one key occupies a share of the threads at most."""

    def __init__(self, name: str, threads: int) -> None:
        # In the context of its thread, where Django keeps the connections to caches and databases.
        self._pool = Pool(name, threads, in_callers_context=False)
        self._limit = max(1, threads // SHARE)
        self._slots: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, key: Hashable, function: Callable[[], Result]) -> Result:
        slots = self._slots.get(key)
        if slots is None:
            slots = self._slots[key] = asyncio.Semaphore(self._limit)
        async with slots:
            return await asyncio.get_running_loop().run_in_executor(self._pool, _with_fresh_connections, function)

    def shutdown(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _with_fresh_connections(function: Callable[[], Result]) -> Result:
    try:
        return function()
    finally:
        # Returned to their pool: the threads outnumber the connections.
        close_old_connections()


def _result(function: Callable[[], Result]) -> Result | BaseException:
    try:
        return function()
    except Exception as error:
        return error


class WorkerThreads:
    """The pools of a worker. Nodes and signers may hang; database work has its own threads."""

    def __init__(self, database_threads: int, node_threads: int, signing_threads: int) -> None:
        self._database = FairPool("lane-database", database_threads)
        self._nodes = FairPool("lane-nodes", node_threads)
        self._signers = FairPool("lane-signers", signing_threads)

    async def database(self, function: Callable[..., Result], *args: Any) -> Result:
        # Each call has its own key: database work is not shared out.
        return await self._database.run(object(), lambda: function(*args))

    async def node(self, key: Hashable, function: Callable[..., Result], *args: Any) -> Result:
        return await self._nodes.run(key, lambda: function(*args))

    async def signers(
        self, key: Hashable, functions: Sequence[Callable[[], Result]], *, is_local: bool = False
    ) -> list[Result | BaseException]:
        if is_local:
            # Each is faster than a change of threads.
            return await self._signers.run(key, lambda: list(map(_result, functions)))
        calls = [self._signers.run(key, function) for function in functions]
        return await asyncio.gather(*calls, return_exceptions=True)

    def shutdown(self) -> None:
        for pool in (self._database, self._nodes, self._signers):
            pool.shutdown()
