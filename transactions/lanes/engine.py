"""The engine of a worker: one event loop, one coroutine per lane, one chain watch per network and set of nodes.

Lanes are claimed under leases that the engine renews. If the worker is killed, another one claims them when the leases
end. Pushes only wake lanes: a sweep finds lanes with open transactions that no worker has.
"""

from __future__ import annotations

import asyncio
import logging

from django.conf import settings

from relayer_service.background.loops import LoopService
from relayer_service.background.tasks import OutageFilter
from relayers.models import Relayer
from transactions.lanes import leasing
from transactions.lanes.runners import LaneRunner, WatchKey, WatchRunner
from transactions.lanes.threads import WorkerThreads
from transactions.records.networks import network_of

logger = logging.getLogger(__name__)
logger.addFilter(OutageFilter())

DATABASE_THREADS = 6
NODE_THREADS = SIGNING_THREADS = 64
# How often to poll for requests whose push reached another worker.
POLL_SECONDS = 0.25
# After a failure of the database.
PAUSE_SECONDS = 1.0


class Engine(LoopService["ActiveLanes"]):
    """The engine of a process. To wake a lane is to have it take a turn, and to claim it first if no worker has it.

    When it stops, it releases its lanes, so that other workers need not wait for the leases to end.
    """

    def __init__(self) -> None:
        super().__init__("lanes", ActiveLanes)

    def sweep(self) -> None:
        """Wake lanes that have open transactions and no worker."""
        for lane in leasing.due_lanes():
            self.wake(lane.pk)


class ActiveLanes:
    """The lanes that one event loop works on, with the pools and watches that they share."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.threads = WorkerThreads(DATABASE_THREADS, NODE_THREADS, SIGNING_THREADS)
        self._runners: dict[int, LaneRunner] = {}
        self._watches: dict[WatchKey, WatchRunner] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._upkeep: asyncio.Task[None] | None = None
        self._polls: asyncio.Task[None] | None = None

    @property
    def stopping(self) -> bool:
        return self.engine.stopping

    @property
    def is_full(self) -> bool:
        return len(self._runners) >= leasing.MAX_LANES

    def wake(self, lane_pk: int) -> None:
        if lane_pk in self._runners:
            self._runners[lane_pk].wake.set()
        elif not self.is_full and not self.stopping:
            self._runners[lane_pk] = runner = LaneRunner(self, lane_pk)
            self._start(self._run(runner))
            if self._upkeep is None or self._upkeep.done():
                self._upkeep = self._start(self._renew_leases())
            if self._polls is None or self._polls.done():
                self._polls = self._start(self._poll())

    def watch(self, runner: LaneRunner, relayer: Relayer) -> None:
        """Watch the chain of a lane through its nodes; nodes that were replaced are no longer used."""
        key = (runner.held.chain_id, frozenset(relayer.node_urls()))
        if runner.watch is not None and runner.watch.key == key:
            return
        self.unwatch(runner)
        if key not in self._watches:
            self._watches[key] = WatchRunner(self.threads, key, network_of(relayer).block_seconds)
            self._start(self._watches[key].run())
        runner.watch = self._watches[key]
        runner.watch.lanes[runner.pk] = runner

    def unwatch(self, runner: LaneRunner) -> None:
        if runner.watch is not None:
            runner.watch.lanes.pop(runner.pk, None)
            if not runner.watch.lanes:
                self._watches.pop(runner.watch.key, None)
                runner.watch.ended.set()
            runner.watch = None

    async def finish(self, seconds: float) -> None:
        for runner in self._runners.values():
            runner.wake.set()
        for task in (self._upkeep, self._polls):
            if task is not None:
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def close(self) -> None:
        self.threads.shutdown()

    def _start(self, coroutine: object) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(coroutine)  # type: ignore[arg-type]  # a coroutine
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, runner: LaneRunner) -> None:
        try:
            await runner.run()
        except Exception:
            # A bug in this service: the sweep finds the lane again when its lease has ended.
            logger.exception("The lane %s has stopped unexpectedly", runner.pk)
        finally:
            self.unwatch(runner)
            del self._runners[runner.pk]
            if runner.wake.is_set():
                # Woken after it had found nothing more to do.
                self.wake(runner.pk)

    async def _renew_leases(self) -> None:
        while self._runners:
            held = [runner.lane for runner in self._runners.values() if runner.lane is not None]
            if held:
                try:
                    await self.threads.database(leasing.renew, held)
                except Exception:
                    logger.exception("Cannot renew the leases of %d lanes", len(held))
            await asyncio.sleep(settings.LANE_LEASE_SECONDS / 3)

    async def _poll(self) -> None:
        """Wake lanes that got requests or actions: with several workers, the push may have reached another one."""
        before = newest = 0
        while self._runners:
            try:
                lanes = await self.threads.database(leasing.poll, list(self._runners))
            except Exception:
                logger.exception("Cannot read new transactions and actions")
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            for lane in lanes:
                # Also the requests of the previous poll, as transactions commit out of order.
                if (runner := self._runners.get(lane.pk)) and (lane.newest > before or runner.note_actions(lane)):
                    runner.wake.set()
            before, newest = newest, max([newest, *(lane.newest for lane in lanes)])
            await asyncio.sleep(POLL_SECONDS)


engine = Engine()
