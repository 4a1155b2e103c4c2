"""The coroutines of a worker: one per lane, and one per chain and set of nodes that watches it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Hashable
from contextlib import suppress
from typing import Protocol

from chain.errors import ChainFault
from relayer_service.background.tasks import OutageFilter
from relayer_service.observability.logs import RepeatedWarnings
from relayer_service.storage.encryption import DecryptionError
from relayers.models import Relayer
from transactions import metrics
from transactions.lanes import leasing
from transactions.lanes.commits import LeaseLost
from transactions.lanes.threads import WorkerThreads
from transactions.lanes.turn import NextTurn, Turn
from transactions.models import Lane
from transactions.settlement import watching

logger = logging.getLogger(__name__)
logger.addFilter(RepeatedWarnings())
logger.addFilter(OutageFilter())

# A chain is read about once per block.
MIN_LOOK_SECONDS, MAX_LOOK_SECONDS = 1.0, 4.0
# After a failure; it doubles with each further one, up to the maximum.
PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 60.0

WatchKey = tuple[int, frozenset[tuple[str, int]]]


class EnginePort(Protocol):
    """What a lane needs of the engine that runs it."""

    threads: WorkerThreads

    @property
    def stopping(self) -> bool: ...

    @property
    def is_full(self) -> bool: ...

    def watch(self, runner: LaneRunner, relayer: Relayer) -> None: ...


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class LaneRunner:
    """The coroutine of one lane, from its claim to its release."""

    def __init__(self, host: EnginePort, pk: int) -> None:
        self.pk = pk
        self.wake = asyncio.Event()
        self.lane: Lane | None = None
        # Whether its last turn left requests without a nonce.
        self.has_pending = True
        self.watch: WatchRunner | None = None
        self._host = host
        self._threads = host.threads

    @property
    def held(self) -> Lane:
        assert self.lane is not None
        return self.lane

    def note_actions(self, polled: Lane) -> bool:
        """Return whether actions were requested since the lane was read, and note how many."""
        has_new = self.lane is not None and self.lane.actions != polled.actions
        if self.lane is not None:
            self.lane.actions = polled.actions
        return has_new

    async def run(self) -> None:
        """Claim the lane and take turns until it has no open transactions, or its lease is lost."""
        self.lane = await self._threads.database(leasing.claim, self.pk)
        if self.lane is None:
            return
        failures = 0
        try:
            while not self._host.stopping:
                self.wake.clear()
                next_turn = await self._turn()
                self.has_pending = next_turn.has_pending
                failures = failures + 1 if next_turn.failed else 0
                if next_turn.is_idle and await self._threads.database(leasing.release_if_idle, self.lane):
                    self.lane = None
                    return
                pause = min(next_turn.seconds * 2 ** min(failures, 10), MAX_PAUSE_SECONDS)
                if next_turn.can_yield and self._host.is_full:
                    await self._release(self.lane, pause)
                    self.lane = None
                    return
                await _wait(self.wake, pause)
        except LeaseLost:
            self.lane = None
        finally:
            if self.lane is not None:
                await self._release(self.lane)

    async def _turn(self) -> NextTurn:
        turn = Turn(self.held, self._threads)
        try:
            return await turn.take()
        except LeaseLost:
            raise
        except Exception:
            # An outage of the database, or a bug: nothing is kept in memory, the next turn reads the rows again.
            logger.exception("A turn of the lane %s failed", self.pk)
            return NextTurn(PAUSE_SECONDS, failed=True)
        finally:
            if turn.relayer is not None:
                self._host.watch(self, turn.relayer)

    async def _release(self, lane: Lane, seconds: float = 0) -> None:
        try:
            await self._threads.database(leasing.release, lane, seconds)
        except Exception:
            logger.exception("The lane %s was not released: it is claimed again when its lease ends", self.pk)


class WatchRunner:
    """Reads a chain through one set of nodes, for all lanes of this worker that use them."""

    def __init__(self, threads: WorkerThreads, key: WatchKey, block_seconds: float) -> None:
        self.key = key
        self.lanes: dict[int, LaneRunner] = {}
        self.ended = asyncio.Event()
        self._threads = threads
        self._seconds = min(max(MIN_LOOK_SECONDS, block_seconds), MAX_LOOK_SECONDS)

    async def run(self) -> None:
        failures = 0
        while not self.ended.is_set():
            failures = 0 if await self._look() else failures + 1
            await _wait(self.ended, min(self._seconds * 2 ** min(failures, 10), MAX_PAUSE_SECONDS))

    async def _look(self) -> bool:
        """Read the chain once and wake the lanes that changed; return whether a node answered."""
        held = [runner.lane for runner in self.lanes.values() if runner.lane is not None]
        nodes: Hashable = self.key[1]
        started = time.monotonic()
        try:
            found = await self._threads.node(nodes, watching.look, held)
        except (ChainFault, DecryptionError) as fault:
            logger.warning("The chain %s cannot be read: %s", self.key[0], fault)
            return False
        except Exception:
            logger.exception("Watching the chain %s failed", self.key[0])
            return False
        metrics.WATCH_SECONDS.labels(metrics.network_label(self.key[0])).observe(time.monotonic() - started)
        for lane_pk in found.changed:
            if lane_pk in self.lanes and (self.lanes[lane_pk].has_pending or lane_pk not in found.advanced):
                self.lanes[lane_pk].wake.set()
        return True
