"""Pauses that end early: `wait` pauses between two requests, and a webhook ends its pause."""

import asyncio
import os
import threading
import time
from asyncio import sleep as async_sleep
from asyncio import timeout as async_time_limit
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Generic, Protocol, TypeVar

__all__ = ["AsyncWakeup", "Wakeup", "Wakeups", "async_sleep", "async_time_limit", "sleep", "time_limit"]

sleep = time.sleep
# A thread cannot be interrupted: the timeouts of httpx end each step of a request.
time_limit = nullcontext[float | None]


class Wakeup:
    """A pause of a thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def wake(self) -> None:
        """End the current pause, or else the next one."""
        self._event.set()

    def pause(self, seconds: float) -> bool:
        """Return True as soon as it is woken, False after these seconds."""
        woken = self._event.wait(seconds)
        self._event.clear()
        return woken


class AsyncWakeup:
    """A pause of a coroutine, which any thread can end."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def wake(self) -> None:
        """End the current pause, or else the next one."""
        # A loop that is closed by now waits no more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    async def pause(self, seconds: float) -> bool:
        """Return True as soon as it is woken, False after these seconds."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Wakes(Protocol):
    def wake(self) -> None: ...


Pause = TypeVar("Pause", bound=Wakes)


class Wakeups(Generic[Pause]):
    """The pauses of a client, with the process and the transaction that they wait for."""

    def __init__(self) -> None:
        # Without a lock, which another thread may hold during a fork: each step is atomic.
        self._waiting: dict[Pause, tuple[int, str]] = {}

    @contextmanager
    def register(self, transaction_id: str, pause: Pause) -> Iterator[Pause]:
        self._waiting[pause] = os.getpid(), transaction_id
        try:
            yield pause
        finally:
            del self._waiting[pause]

    def wake(self, transaction_id: str) -> None:
        awaited = os.getpid(), transaction_id
        for pause, waits_for in self._waiting.copy().items():
            if waits_for == awaited:
                pause.wake()
