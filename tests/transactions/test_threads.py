"""The threads of a worker: what hangs occupies a share of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from signers.backends.base import SignerError
from tests.transactions.single_turns import Inline
from transactions.lanes.threads import Threads, WorkerThreads


def in_loop(work: Callable[[WorkerThreads], object]) -> None:
    """Run a coroutine function with threads of its own: 2 for the database, 8 each for nodes and signers."""

    async def run() -> None:
        threads = WorkerThreads(2, 8, 8)
        try:
            await work(threads)  # type: ignore[misc]  # a coroutine
        finally:
            threads.shutdown()

    asyncio.run(run())


class Hanging:
    """A function that hangs until it is released, or called more often at once than expected, and counts."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.released = threading.Event()
        self.lock = threading.Lock()
        self.at_once = self.max_at_once = 0

    def __call__(self) -> str:
        with self.lock:
            self.at_once += 1
            self.max_at_once = max(self.max_at_once, self.at_once)
            if self.at_once > self.expected:
                self.released.set()
        self.released.wait()
        with self.lock:
            self.at_once -= 1
        return "late"


@pytest.mark.parametrize("kind", ["nodes", "signers"])
def test_what_hangs_occupies_a_quarter_of_the_threads(kind: str) -> None:
    hanging = Hanging(2)

    async def work(threads: WorkerThreads) -> None:
        async def call(key: str, function: Callable[[], str]) -> str:
            if kind == "nodes":
                return await threads.node(key, function)
            (result,) = await threads.signers(key, [function])
            assert isinstance(result, str)
            return result

        hung = [asyncio.create_task(call("hung", hanging)) for _ in range(50)]
        # Those of 50 others go on, each after the other with what is left.
        done = await asyncio.gather(*(call(f"good {number}", lambda: "done") for number in range(50)))
        assert (done, [task for task in hung if task.done()]) == (["done"] * 50, [])
        hanging.released.set()
        assert await asyncio.gather(*hung) == ["late"] * 50

    in_loop(work)
    assert hanging.max_at_once == 2


def test_database_work_is_not_held_up_by_nodes_and_signers() -> None:
    hanging = Hanging(16)

    async def work(threads: WorkerThreads) -> None:
        calls = [threads.node(number, hanging) for number in range(20)]
        calls += [threads.signers(number, [hanging]) for number in range(20)]  # type: ignore[misc]  # other results
        hung = [asyncio.ensure_future(call) for call in calls]
        assert await threads.database(lambda number: number + 1, 1) == 2
        hanging.released.set()
        await asyncio.gather(*hung)

    in_loop(work)


@pytest.mark.parametrize("is_local", [False, True], ids=["server", "local key"])
@pytest.mark.parametrize("inline", [False, True], ids=["threads", "inline"])
def test_results_of_signers_come_in_order_with_their_exceptions(inline: bool, is_local: bool) -> None:
    error = SignerError("The server did not respond.", permanent=False)

    def fail() -> int:
        raise error

    async def work(threads: Threads) -> None:
        chosen = Inline() if inline else threads
        assert await chosen.signers("key", [lambda: 1, fail, lambda: 3], is_local=is_local) == [1, error, 3]

    in_loop(work)
