"""Workers in the process of a test, whose turns and looks are taken one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import models
from django.db.models import F

from relayer_service.database import ttl_cache
from relayer_service.database.clock import DatabaseNow
from tests.transactions.mempool import MempoolChain
from tests.transactions.single_turns import take_turn
from transactions.lanes import leasing
from transactions.lanes.commits import LeaseLost
from transactions.models import OPEN, Attempt, ChainWatch, Lane, Transaction
from transactions.records import crash_points
from transactions.settlement.watching import look


class Killed(BaseException):
    """The process ends here. Not an Exception: nothing may handle it, as nothing handles a kill."""


class Engine:
    """A worker that keeps its claim in memory, whatever the database says of it by now."""

    def __init__(self, lane_pk: int) -> None:
        self.lane_pk = lane_pk
        self.lane: Lane | None = None

    def turn(self) -> None:
        if self.lane is None:
            self.lane = leasing.claim(self.lane_pk)
        if self.lane is not None:
            try:
                take_turn(self.lane)
            except LeaseLost:
                self.lane = None

    def look(self) -> None:
        if self.lane is not None:
            look([self.lane])

    def die(self) -> None:
        """Lose all that is in memory."""
        self.lane = None
        ttl_cache.clear_all()


@contextmanager
def at_step(name: str, function: Callable[[], None]) -> Iterator[None]:
    """Call a function when a step is next reached, once."""

    def reached() -> None:
        crash_points._name = ""
        function()

    before = crash_points._reached
    crash_points._name, crash_points._reached = name, reached
    try:
        yield
    finally:
        crash_points._name, crash_points._reached = "", before


def kill() -> None:
    raise Killed


def end_lease(lane_pk: int) -> None:
    """Let the lease of a lane be over, as if its holder had been silent for its length."""
    Lane.objects.filter(pk=lane_pk).update(due_at=DatabaseNow() - timedelta(seconds=1))


def let_time_pass(seconds: float) -> None:
    """Make everything in the database so many seconds older."""
    for model in (Lane, Transaction, Attempt, ChainWatch):
        times = [column.name for column in model._meta.concrete_fields if isinstance(column, models.DateTimeField)]
        model._base_manager.update(**{name: F(name) - timedelta(seconds=seconds) for name in times})


def is_final() -> bool:
    return not Transaction.objects.filter(status__in=OPEN).exists()


def run_until_final(engine: Engine, chain: MempoolChain, rounds: int = 60) -> None:
    """Take turns and looks with a block and some time between them, until everything is final."""
    for _ in range(rounds):
        if is_final():
            return
        engine.turn()
        chain.block()
        engine.look()
        let_time_pass(20)
        end_lease(engine.lane_pk)
        engine.lane = None
    stuck = Transaction.objects.filter(status__in=OPEN).values_list("identifier", "status", "nonce", "status_reason")
    raise AssertionError(f"not final after {rounds} blocks: {list(stuck)}, {Lane.objects.values()}")
