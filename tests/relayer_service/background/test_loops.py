"""An event loop that threads use."""

import asyncio
import queue
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from relayer_service.background.loops import LoopThread
from tests.concurrency import PATIENCE_SECONDS
from tests.servers import PROJECT


async def thread_name() -> str:
    return threading.current_thread().name


async def fail() -> None:
    raise ValueError("no")


def test_a_coroutine_runs_on_the_loop_and_its_result_comes_back() -> None:
    assert LoopThread("a-loop").run(thread_name()) == "a-loop"
    with pytest.raises(ValueError, match="no"):
        LoopThread("a-loop").run(fail())


def test_many_threads_share_one_loop_and_wait_at_once() -> None:
    loop = LoopThread("a-loop")
    together = asyncio.Barrier(20)

    async def meet() -> int:
        await together.wait()
        return id(asyncio.get_running_loop())

    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: loop.run(meet()), range(20)))
    assert len(set(found)) == 1


class Kept:
    closed = False

    async def close(self) -> None:
        self.closed = True


def test_a_stop_cancels_what_runs_and_closes_what_the_loop_owns() -> None:
    loop = LoopThread("a-loop-that-ends")

    async def own() -> Kept:
        assert loop.own(Kept) is loop.own(Kept)
        return loop.own(Kept)

    kept, waits = loop.run(own()), loop.submit(asyncio.sleep(60))
    loop.stop()
    assert (kept.closed, waits.cancelled()) == (True, True)
    assert "a-loop-that-ends" not in {thread.name for thread in threading.enumerate()}
    # It starts again, and owns nothing of before.
    assert loop.run(own()) is not kept


def test_threads_may_stop_a_loop_at_once() -> None:
    loop = LoopThread("a-loop-that-many-end")

    def use_and_stop(_: int) -> None:
        loop.submit(asyncio.sleep(0))
        loop.stop()

    # An error in a thread of the loop fails the test.
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(use_and_stop, range(100)))
    loop.stop()
    assert "a-loop-that-many-end" not in {thread.name for thread in threading.enumerate()}


def test_a_call_can_be_delayed() -> None:
    loop, called = LoopThread("a-loop"), queue.Queue[str]()

    def call_both() -> None:
        loop.call(called.put, "later", delay=0.2)
        loop.call(called.put, "at once")

    # On the loop, which sees both calls before it makes one.
    loop.call(call_both)
    assert [called.get(timeout=PATIENCE_SECONDS) for _ in range(2)] == ["at once", "later"]


FORKING = """
import os, threading
from relayer_service.background.loops import LoopThread

async def pid():
    return os.getpid()

loop = LoopThread("a-loop")
assert loop.run(pid()) == os.getpid()
# As a thread would that is in the middle of it.
loop._lock.acquire()
child = os.fork()
if child == 0:
    os._exit(0 if loop.run(pid()) == os.getpid() else 1)
loop._lock.release()
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_has_a_loop_of_its_own() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKING]
    assert subprocess.run(command, cwd=PROJECT, timeout=PATIENCE_SECONDS).returncode == 0
