"""An event loop in its own thread, for synchronous code that calls asynchronous libraries."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent import futures
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar

from relayer_service.background.pools import RESOLVER_THREADS, Pool, ProcessState, at_exit

Result = TypeVar("Result")

STOP_SECONDS = 1.0
# A service has this long for its last writes, after the time that its work has to finish.
FINISH_MARGIN_SECONDS = 1.0


class LoopThread(ProcessState):
    """One loop per process, started on first use and restarted after it has ended or in a forked process.

    It resolves names in its own pool, so that a hanging name server does not block other loops.
    """

    _loop: asyncio.AbstractEventLoop | None

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()
        at_exit.callback(self.stop)

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return self.submit(coroutine).result()

    def submit(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        with self._lock:
            return asyncio.run_coroutine_threadsafe(coroutine, self._started())

    def call(self, function: Callable[..., object], *args: Any, delay: float = 0) -> None:
        with self._lock:
            loop = self._started()
            loop.call_soon_threadsafe(loop.call_later, delay, function, *args)

    def own(self, make: Callable[[], Result]) -> Result:
        """Return an object of the running loop, created on first use. Its `close()` is awaited when the loop ends."""
        key = (asyncio.get_running_loop(), make)
        if key not in self._owned:
            self._owned[key] = make()
        owned: Result = self._owned[key]
        return owned

    def stop(self) -> None:
        with self._lock:
            # Cleared first, as a second stop would interrupt the cleanup.
            loop, thread = self._loop, self._thread
            self._loop = None
            if loop is not None:
                loop.call_soon_threadsafe(loop.stop)
        if thread is not None:
            thread.join(STOP_SECONDS)

    def reset(self) -> None:
        super().reset()
        self._loop = None
        self._thread: threading.Thread | None = None
        self._owned: dict[tuple[asyncio.AbstractEventLoop, Callable[[], Any]], Any] = {}

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._loop.set_default_executor(Pool(f"{self.name}-resolver", RESOLVER_THREADS))
            self._thread = threading.Thread(target=self._run, args=[self._loop], name=self.name, daemon=True)
            self._thread.start()
        return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
        finally:
            with self._lock:
                if self._loop is loop:
                    self._loop = None
            loop.run_until_complete(self._end(loop))
            loop.close()

    async def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for key in [key for key in self._owned if key[0] is loop]:
            await self._owned.pop(key).close()


class Active(Protocol):
    """The work of a service in its loop, and what that work shares."""

    def wake(self, key: int) -> None: ...

    async def finish(self, seconds: float) -> None: ...


Work = TypeVar("Work", bound=Active)


class LoopService(Generic[Work]):
    """A service of a process that works on rows in its own event loop, used from any thread."""

    def __init__(self, name: str, make: Callable[[Self], Work]) -> None:
        self.stopping = False
        self._lock = threading.Lock()
        self._loop = LoopThread(name)
        self._active: Callable[[], Work] = partial(make, self)

    def wake(self, key: int) -> None:
        """Start or continue the work of a row, without waiting for it."""
        with self._lock:
            if not self.stopping:
                self._loop.call(lambda: self._loop.own(self._active).wake(key))

    def stop(self, seconds: float) -> None:
        """Start nothing more, and wait for the work in progress.

        Each thread of a worker calls this when it ends; only the first call has an effect.
        """
        with self._lock:
            if self.stopping:
                return
            self.stopping = True
        finished = self._loop.submit(self._finish(seconds))
        futures.wait([finished], seconds + FINISH_MARGIN_SECONDS)
        self._loop.stop()
        self.close()

    def close(self) -> None:
        """Free what the service has outside of its loop, once it is stopped."""

    async def _finish(self, seconds: float) -> None:
        await self._loop.own(self._active).finish(seconds)
