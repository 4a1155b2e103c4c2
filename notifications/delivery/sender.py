"""The sender of a worker: one event loop that sends to all targets concurrently.

A target that hangs holds sockets, not threads, so that it delays no other. Deliveries are claimed from the outbox and
written back to it (`outbox.py`) in a thread pool.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
import uuid
from collections import deque
from contextlib import suppress
from functools import cached_property

from django.db import close_old_connections

from notifications.delivery import outbox, posting
from notifications.delivery.outstanding import Outstanding, Place
from notifications.models import Delivery
from relayer_service.background.loops import LoopService
from relayer_service.background.pools import Pool
from relayer_service.background.tasks import OutageFilter

logger = logging.getLogger(__name__)
logger.addFilter(OutageFilter())

# Deliveries in flight to one target, from all workers together: docs/webhooks.md promises it to receivers.
TARGET_CONCURRENCY = 8
# Targets that one worker sends to concurrently, and as many failing ones: each holds sockets, and rows in memory.
MAX_TARGETS = 200
# Threads that read and write deliveries, with a database connection each; four keep up with all sockets.
DATABASE_THREADS = 4
DATABASE_PAUSE_SECONDS = 1
GATHER_SECONDS = 0.01
MAX_OPEN_FILES = 65_536
# Failures in a row, one every DATABASE_PAUSE_SECONDS, after which the leases have expired and nothing can be written.
MAX_DATABASE_FAILURES = 30


class Sender(LoopService["ActiveTargets"]):
    """The sender of a process. To wake a target is to start to send its due deliveries.

    When it stops, it claims nothing more, and waits for the deliveries in flight; another worker sends those that do
    not return.
    """

    def __init__(self) -> None:
        super().__init__("webhook-sender", ActiveTargets)

    @cached_property
    def database(self) -> Pool:
        return Pool("webhook-database", DATABASE_THREADS)

    def close(self) -> None:
        self.database.shutdown(wait=False)


class ActiveTargets:
    """The targets that one event loop sends to, and the session that they share."""

    def __init__(self, sender: Sender) -> None:
        raise_file_limit()
        self.sender = sender
        self.session = posting.open_session()
        self.outstanding = Outstanding()
        self._senders: dict[int, TargetSender] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Failing targets have separate places, so that they never take the places of others.
        self._places = asyncio.Semaphore(MAX_TARGETS)
        self._places_for_failing = asyncio.Semaphore(MAX_TARGETS)

    def wake(self, target_pk: int) -> None:
        if target_pk not in self._senders:
            self._senders[target_pk] = TargetSender(self, target_pk)
            task = asyncio.create_task(self._send_to(self._senders[target_pk]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._senders[target_pk].wake.set()

    async def finish(self, seconds: float) -> None:
        for target in self._senders.values():
            target.wake.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def close(self) -> None:
        await self.session.close()

    async def _send_to(self, target: TargetSender) -> None:
        try:
            async with self._places:
                await target.send_due()
            # After giving up it discards results: the next sender of the target handles its due deliveries.
            if target.failing and not target.gave_up:
                async with self._places_for_failing:
                    await target.send_due()
        finally:
            del self._senders[target.pk]


class TargetSender:
    """The deliveries of one target that this worker has claimed, has in flight, or has to write back."""

    def __init__(self, targets: ActiveTargets, pk: int) -> None:
        self.pk = pk
        self.wake = asyncio.Event()
        self.failing = False
        self.gave_up = False
        self._sender = targets.sender
        self._session = targets.session
        self._outstanding = targets.outstanding
        self._lease = uuid.uuid4()
        # Each with the time of its claim.
        self._claimed: deque[tuple[Delivery, float]] = deque()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._outcomes: list[posting.Outcome] = []
        # One for each outcome that is not written, in the same order.
        self._places: list[Place] = []
        self._unsent: list[Delivery] = []

    async def send_due(self) -> None:
        """Exchange rows with the outbox until nothing is due, or the target starts to fail."""
        failures = 0
        was_failing = self.failing
        while True:
            self.wake.clear()
            outcomes, unsent, self._outcomes, self._unsent = self._outcomes, self._unsent, [], []
            batch = outbox.OutboxBatch(
                self.pk, self._lease, outcomes, unsent, room=self._room(), target_fails=self.failing
            )
            # Before the wait: the lease begins in it.
            claimed_at = time.monotonic()
            try:
                claimed = await self._in_thread(batch, was_failing)
            except Exception:
                # Nothing was written: it is retried, and if it never works the rows are due again.
                logger.exception("Cannot read or write deliveries")
                failures += 1
                if self._sender.stopping or failures == MAX_DATABASE_FAILURES:
                    self._give_up()
                    return
                self._outcomes, self._unsent = outcomes + self._outcomes, unsent + self._unsent
                await asyncio.sleep(DATABASE_PAUSE_SECONDS)
                continue
            failures, self.failing = 0, batch.target_fails
            self._claimed.extend((row, claimed_at) for row in claimed)
            self._free_places(len(outcomes))
            self._send_claimed()
            for alerted in batch.alerted:
                self._sender.wake(alerted)
            if not self._in_flight and not self._claimed and not self._unsent and not self.wake.is_set():
                return
            await self.wake.wait()
            if self._claimed:
                # More outcomes arrive in a moment, and are written in the same transaction.
                await asyncio.sleep(GATHER_SECONDS)

    def _room(self) -> int:
        """Return how many deliveries can be claimed; a failing target has one at a time."""
        held = len(self._claimed) + len(self._in_flight)
        if self._sender.stopping or (self.failing and held):
            return 0
        return outbox.MAX_CLAIMED - held

    async def _in_thread(self, batch: outbox.OutboxBatch, include_failing: bool) -> list[Delivery]:
        def run() -> list[Delivery]:
            try:
                return batch.run(include_failing)
            finally:
                close_old_connections()

        return await asyncio.get_running_loop().run_in_executor(self._sender.database, run)

    def _send_claimed(self) -> None:
        """Send claimed deliveries up to the target's limit in flight; release those that waited too long."""
        maximum = 1 if self.failing else TARGET_CONCURRENCY
        while self._claimed and len(self._in_flight) < maximum:
            row, claimed_at = self._claimed[0]
            if self._sender.stopping or time.monotonic() - claimed_at > outbox.MAX_CLAIMED_SECONDS:
                self._unsent.append(row)
                self.wake.set()
            elif place := self._outstanding.take(self._send_claimed):
                self._in_flight.add(asyncio.create_task(self._send(row, place)))
            else:
                return
            self._claimed.popleft()

    def _give_up(self) -> None:
        """Stop holding rows: those that are not written are due again when their lease ends."""
        self.gave_up = True
        self._claimed.clear()
        self._free_places(len(self._places))

    def _free_places(self, count: int) -> None:
        places, self._places = self._places[:count], self._places[count:]
        for place in places:
            place.free()

    async def _send(self, row: Delivery, place: Place) -> None:
        try:
            outcome = await posting.send(self._session, row)
            if self.gave_up:
                place.free()
                return
            place.answered()
            self._places.append(place)
            # Not on one line with the await: the list may be replaced during it.
            self._outcomes.append(outcome)
            # Before it is written: deliveries already claimed must not be sent into the failure.
            self.failing |= not outcome.succeeded
            if outcome.gone:
                self._unsent += [row for row, _ in self._claimed]
                self._claimed.clear()
        except Exception:
            # A bug in this service; the row is due again when its lease ends.
            logger.exception("Unexpected error while sending a webhook")
            place.free()
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._in_flight.discard(task)
            self._send_claimed()
            self.wake.set()


def raise_file_limit() -> None:
    """Raise this process's limit of open files as far as the system permits, since each attempt needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


sender = Sender()
