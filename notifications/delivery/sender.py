"""The sender of a worker: one event loop that sends to all targets at once.

A target that hangs holds sockets for a while, not threads, so that it delays nobody else. What is sent is taken
from the database and written back there (`outbox.py`), in threads of their own.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import aiohttp
from django.conf import settings
from django.db import close_old_connections

from notifications.delivery import attempts, outbox
from notifications.models import Delivery

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

DATABASE_THREADS = 4
# Names are resolved in threads: a name server that hangs must not hold the names of other targets.
RESOLVER_THREADS = 64
DATABASE_PAUSE_SECONDS = 1
GATHER_SECONDS = 0.01
OPEN_FILES = 65_536
# After so long the leases are lost, and with them what could be written.
MOST_DATABASE_FAILURES = 30


class Sender:
    """The sender of a process: it wakes its thread, and starts another where that one has ended."""

    def __init__(self) -> None:
        self._start = threading.Lock()
        self._thread: SenderThread | None = None
        self._stopping = False

    def wake(self, target_pk: int) -> None:
        """Send what is due for a target; from any thread, and without waiting for it."""
        with self._start:
            if self._stopping:
                return
            if self._thread is None or self._thread.stopping:
                thread = SenderThread()
                thread.start()
                self._thread = thread
            self._thread.wake(target_pk)

    def stop(self, seconds: float) -> None:
        """Take nothing more, and wait for what is on its way; what is not back by then is sent by another worker."""
        with self._start:
            self._stopping = True
        if self._thread is not None:
            self._thread.finish(seconds)
            self._thread.join(seconds + DATABASE_PAUSE_SECONDS)


class SenderThread(threading.Thread):
    """A thread with its event loop and all that belongs to it, so that nothing of it is left to the loop after it."""

    def __init__(self) -> None:
        super().__init__(name="webhook-sender", daemon=True)
        self.stopping = False
        self._loop = asyncio.new_event_loop()
        self._database = ThreadPoolExecutor(DATABASE_THREADS, "webhook-database")
        self._session: aiohttp.ClientSession | None = None
        self._targets: dict[int, Target] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Targets that fail have places of their own, so that they never take those of the others.
        self._places = asyncio.Semaphore(settings.WEBHOOK_TARGETS)
        self._places_for_failing = asyncio.Semaphore(settings.WEBHOOK_TARGETS)

    def wake(self, target_pk: int) -> None:
        self._loop.call_soon_threadsafe(self._wake, target_pk)

    def finish(self, seconds: float) -> None:
        if not self.stopping:
            self.stopping = True
            asyncio.run_coroutine_threadsafe(self._finish(seconds), self._loop)

    def run(self) -> None:
        try:
            raise_file_limit()
            self._loop.set_default_executor(ThreadPoolExecutor(RESOLVER_THREADS, "webhook-resolver"))
            self._loop.run_forever()
        finally:
            self.stopping = True
            self._loop.run_until_complete(self._cut_off())
            self._loop.close()
            self._database.shutdown(wait=False)

    def _wake(self, target_pk: int) -> None:
        target = self._targets.get(target_pk)
        if target is None:
            target = self._targets[target_pk] = Target(self, target_pk)
            task = self._loop.create_task(self._send_to(target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        target.wake.set()

    async def _finish(self, seconds: float) -> None:
        for target in self._targets.values():
            target.wake.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        self._loop.stop()

    async def _cut_off(self) -> None:
        """End what is still on its way. That is no failure of its target: nothing is written of it."""
        late = asyncio.all_tasks() - {asyncio.current_task()}
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _send_to(self, target: Target) -> None:
        try:
            async with self._places:
                await target.send_what_is_due()
            if target.fails:
                async with self._places_for_failing:
                    await target.send_what_is_due()
        finally:
            del self._targets[target.pk]

    async def send(self, row: Delivery) -> attempts.Outcome:
        if self._session is None:
            self._session = attempts.open_session()
        return await attempts.send(self._session, row)

    async def in_thread(self, function: Callable[..., Result], *args: Any) -> Result:
        def run() -> Result:
            try:
                return function(*args)
            finally:
                close_old_connections()

        return await self._loop.run_in_executor(self._database, run)


def raise_file_limit() -> None:
    """Let this process open more files, as each attempt is one; systems that refuse it keep their usual limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


class Target:
    """What this worker holds of one target: deliveries that it has taken, is sending, and has to write back."""

    def __init__(self, sender: SenderThread, pk: int) -> None:
        self.sender = sender
        self.pk = pk
        self.wake = asyncio.Event()
        self.fails = False
        self._lease = uuid.uuid4()
        # What was taken, each with when.
        self._stock: deque[tuple[Delivery, float]] = deque()
        self._sends: set[asyncio.Task[None]] = set()
        self._outcomes: list[attempts.Outcome] = []
        self._unsent: list[Delivery] = []

    async def send_what_is_due(self) -> None:
        """Take turns with the database until nothing is due, or the target turns out to fail."""
        failures = 0
        was_failing = self.fails
        while True:
            self.wake.clear()
            outcomes, unsent, self._outcomes, self._unsent = self._outcomes, self._unsent, [], []
            turn = outbox.Turn(self.pk, self._lease, outcomes, unsent, target_fails=self.fails)
            # One that fails has a single delivery at a time: nothing more is taken while that is on its way.
            waits = self.fails and bool(self._stock or self._sends)
            if not self.sender.stopping and not waits:
                turn.room = outbox.TAKEN_AT_ONCE - len(self._stock) - len(self._sends)
            # Before the wait: the lease begins in it.
            taken_at = time.monotonic()
            try:
                taken = await self.sender.in_thread(turn.take, was_failing)
            except Exception:
                # Nothing was written: the same is tried again, and the rows are due again if it never works.
                logger.exception("Deliveries cannot be read or written")
                failures += 1
                if self.sender.stopping or failures == MOST_DATABASE_FAILURES:
                    return
                self._outcomes, self._unsent = outcomes + self._outcomes, unsent + self._unsent
                await asyncio.sleep(DATABASE_PAUSE_SECONDS)
                continue
            failures, self.fails = 0, turn.target_fails
            self._stock.extend((row, taken_at) for row in taken)
            self._send_from_stock()
            if not self._sends and not self._unsent and not self.wake.is_set():
                return
            await self.wake.wait()
            if self._stock:
                # More come back in a moment, and are written with the same transaction.
                await asyncio.sleep(GATHER_SECONDS)

    def _send_from_stock(self) -> None:
        """Begin as many sends as the target may have at once; give back what has waited for too long."""
        most = 1 if self.fails else settings.WEBHOOK_TARGET_CONCURRENCY
        while self._stock and len(self._sends) < most:
            row, taken_at = self._stock.popleft()
            if self.sender.stopping or time.monotonic() - taken_at > outbox.LONGEST_IN_STOCK_SECONDS:
                self._unsent.append(row)
                self.wake.set()
            else:
                task = asyncio.create_task(self._send(row))
                self._sends.add(task)

    async def _send(self, row: Delivery) -> None:
        try:
            outcome = await self.sender.send(row)
            # Not in one line with the wait: the list is another by then.
            self._outcomes.append(outcome)
        except Exception:
            # A fault of ours; the row is due again when its lease ends.
            logger.exception("A webhook could not be sent")
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._sends.discard(task)
            self._send_from_stock()
            self.wake.set()


sender = Sender()
