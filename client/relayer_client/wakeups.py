"""Pauses that end early: `wait` pauses between two requests, and a webhook ends its pause."""

import asyncio
import threading
import time
from asyncio import sleep as async_sleep
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

__all__ = ["AsyncWakeup", "Wakeup", "Wakeups", "async_sleep", "sleep"]

sleep = time.sleep


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
    """The pauses of a client, by the transaction that they wait for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Pause]] = {}

    @contextmanager
    def register(self, transaction_id: str, pause: Pause) -> Iterator[Pause]:
        with self._lock:
            self._waiting.setdefault(transaction_id, []).append(pause)
        try:
            yield pause
        finally:
            with self._lock:
                self._waiting[transaction_id].remove(pause)
                if not self._waiting[transaction_id]:
                    del self._waiting[transaction_id]

    def wake(self, transaction_id: str) -> None:
        with self._lock:
            for pause in self._waiting.get(transaction_id, ()):
                pause.wake()
