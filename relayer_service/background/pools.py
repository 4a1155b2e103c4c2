"""Thread pools: named, and shown by /metrics."""

import contextvars
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from relayer_service.observability import metrics

Item = TypeVar("Item")
Result = TypeVar("Result")

# Threads that only wait cost little memory. For nodes: how many are asked at once by a round of health checks, by a
# reading of prices or by a page of the admin.
NODE_THREADS = 100
# For name servers, in a pool each for webhooks, nodes and signers.
RESOLVER_THREADS = 64


class Pool(ThreadPoolExecutor):
    """A thread pool whose size and threads in use are metrics, under its name.

    Work runs in the context of its caller, with the request id under which it logs, unless it is not a part of what
    the caller does: then in that of its thread, where Django keeps what it opens from one request to the next.
    """

    def __init__(self, name: str, size: int, *, in_callers_context: bool = True) -> None:
        super().__init__(size, name)
        self._in_callers_context = in_callers_context
        self._in_use = metrics.POOL_IN_USE.labels(name)
        pool_size = metrics.POOL_SIZE.labels(name)
        pool_size.inc(size)
        # Once, although a pool may be shut down several times.
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


def at_once(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return what a function that waits for a node returns for each item, asking about NODE_THREADS of them at once.

    The pool is the caller's own, so that nodes that hang do not hold up other callers.
    """
    if not items:
        return []
    with Pool("nodes", min(len(items), NODE_THREADS)) as pool:
        return list(pool.map(function, items))
