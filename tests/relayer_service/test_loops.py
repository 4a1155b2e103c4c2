"""An event loop that threads use."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from relayer_service.ops.loops import LoopThread
from tests.servers import PROJECT


async def thread_name() -> str:
    return threading.current_thread().name


async def fail() -> None:
    raise ValueError("no")


def test_a_coroutine_runs_on_the_loop_and_its_result_comes_back() -> None:
    assert LoopThread("a-loop").run(thread_name()) == "a-loop"


def test_what_a_coroutine_raises_comes_back() -> None:
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


FORKING = """
import os, threading
from relayer_service.ops.loops import LoopThread

async def pid():
    return os.getpid()

loop = LoopThread("a-loop")
assert loop.run(pid()) == os.getpid()
# As a thread would that is in the middle of it.
loop._lock.acquire()
child = os.fork()
if child == 0:
    os._exit(0 if loop.run(pid()) == os.getpid() else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_has_a_loop_of_its_own() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKING]
    assert subprocess.run(command, cwd=PROJECT, timeout=30).returncode == 0
