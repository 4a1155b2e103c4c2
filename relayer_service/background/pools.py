"""Named thread pools with metrics, and state that a forked process must not inherit."""

import atexit
import contextvars
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

from relayer_service.observability import metrics

Item = TypeVar("Item")
Result = TypeVar("Result")

# Concurrent node requests of one round of health checks or prices, or of one admin page.
NODE_THREADS = 100
# Threads that resolve names, in separate pools for webhooks, nodes and signers.
RESOLVER_THREADS = 64

# Callbacks of the end of a process, which run last in first out. A web process closes it itself.
at_exit = ExitStack()
atexit.register(at_exit.close)


class ProcessState:
    """Resets itself in a forked process. A subclass sets its state in `reset`, and starts threads on first use."""

    def __init__(self) -> None:
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        # The old lock may be held by a thread that the forked process does not have.
        self._lock = threading.Lock()


class Pool(ThreadPoolExecutor):
    """A thread pool whose size and busy threads are metrics, labelled with its name.

    By default, work runs in the context of its caller, with the request id for log lines. Otherwise it runs in the
    context of its thread, where Django keeps connections open between requests.
    """

    def __init__(self, name: str, size: int, *, in_callers_context: bool = True) -> None:
        super().__init__(size, name)
        self._in_callers_context = in_callers_context
        self._in_use = metrics.POOL_IN_USE.labels(name)
        pool_size = metrics.POOL_SIZE.labels(name)
        pool_size.inc(size)
        # Runs once, even if the pool is shut down several times.
        self._uncount = weakref.finalize(self, pool_size.dec, size)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        call = partial(contextvars.copy_context().run, function) if self._in_callers_context else function

        def run() -> Any:
            with self._in_use.track_inprogress():
                return call(*args, **kwargs)

        return super().submit(run)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)
        self._uncount()


def map_threads(function: Callable[[Item], Result], items: Sequence[Item], threads: int | None = None) -> list[Result]:
    """Return the results of a function that waits for a node, called for each item in up to so many threads."""
    if not items:
        return []
    # Not a shared pool, so that hanging nodes do not block other callers.
    with Pool("nodes", min(len(items), threads or NODE_THREADS)) as pool:
        return list(pool.map(function, items))
