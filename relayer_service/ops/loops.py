"""An event loop in a thread of its own, for code that waits in threads to use what only loops can do."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")

# Names are resolved in threads: a name server that hangs must not hold the names of others.
RESOLVER_THREADS = 64


class LoopThread:
    """One loop for each process, started when it is first needed and again in a process that was forked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and wait for what it comes to."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._started()).result()

    def _forget(self) -> None:
        # The lock too: a thread that the new process does not have may hold it.
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_default_executor(ThreadPoolExecutor(RESOLVER_THREADS, f"{self.name}-resolver"))
                threading.Thread(target=self._loop.run_forever, name=self.name, daemon=True).start()
            return self._loop
