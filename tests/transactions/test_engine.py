"""The engine of a worker, with its own event loop and threads, on a real chain."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.utils import timezone
from eth_account import Account
from pytest_django import Settings

from chain.nodes import attempts
from relayer_service.background.tasks import queue
from relayer_service.database.clock import database_now
from tests.api import Api
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from tests.transactions.hardhat import RECEIVER, LocalChain
from tests.transactions.lies import hold
from tests.transactions.lying_node import ANY, lying_node
from tests.transactions.rest.requests import PATH, TRANSFER
from tests.transactions.single_turns import Inline
from tokens.writes import issue
from transactions import tasks
from transactions.lanes import engine as engine_module
from transactions.lanes import leasing, runners, signing
from transactions.lanes import turn as turn_module
from transactions.lanes.engine import ActiveLanes, Engine
from transactions.lanes.turn import NextTurn, Turn
from transactions.models import Attempt, Lane, Status, Transaction
from transactions.requests import actions
from transactions.settlement.watching import PollResult

pytestmark = pytest.mark.django_db(transaction=True)

STOP_SECONDS = 10
# Longer than any test takes.
NEVER_SECONDS = 10 * PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def ended_threads(transactional_db: None) -> Iterator[None]:
    """Have all threads of the engines end before the database is emptied."""
    yield
    wait_until(lambda: not [one for one in threading.enumerate() if one.name.startswith(("lane-", "lanes"))])


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "PAUSE_SECONDS", 0.02)


@pytest.fixture
def only_pushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have turns take place only when a lane is woken, and nothing found on the chain wake it."""
    monkeypatch.setattr(turn_module, "MIN_PAUSE_SECONDS", NEVER_SECONDS)
    monkeypatch.setattr(turn_module, "MAX_PAUSE_SECONDS", NEVER_SECONDS)
    monkeypatch.setattr(runners, "MAX_PAUSE_SECONDS", NEVER_SECONDS)
    monkeypatch.setattr("transactions.settlement.watching.look", lambda lanes: PollResult())


@contextmanager
def running() -> Iterator[Engine]:
    made = Engine()
    try:
        yield made
    finally:
        made.stop(STOP_SECONDS)


@pytest.fixture
def engine(ended_threads: None) -> Iterator[Engine]:
    with running() as made:
        yield made


@pytest.fixture
def lane(local_chain: LocalChain) -> Lane:
    return new_lane(local_chain, 0)


def new_lane(chain: LocalChain, number: int, url: str = "") -> Lane:
    """Create a relayer with its own account, and its lane."""
    account = Account.from_key(f"0x{number + 1:064x}")
    chain.rpc("hardhat_setBalance", account.address, hex(10**20))
    relayer = relayer_factories.relayer(
        identifier=f"relayer-{number}",
        name=f"Relayer {number}",
        network="hardhat",
        address=account.address,
        signer=relayer_factories.signer(f"signer-{number}", f"0x{number + 1:064x}"),
        rpc_urls=[{"url": url or chain.url, "weight": 100}],
    )
    return factories.lane(relayer)


def request(lane: Lane, value: int = 1) -> Transaction:
    return factories.transaction(lane, to=RECEIVER, value_text=str(value))


def status(row: Transaction) -> str:
    row.refresh_from_db()
    return row.status


def is_submitted(*rows: Transaction) -> bool:
    return all(status(row) == Status.SUBMITTED for row in rows)


def submitted(engine: Engine, lane: Lane) -> Transaction:
    """Return a request that an engine has sent."""
    row = request(lane)
    engine.wake(lane.pk)
    wait_until(lambda: is_submitted(row))
    return row


def lease(lane: Lane) -> Any:
    lane.refresh_from_db()
    return lane.lease


@pytest.fixture
def sender(user: User, settings: Settings, local_chain: LocalChain) -> Api:
    """A client that may send with a relayer on the chain."""
    settings.EXTENSIONS = ["transactions"]
    relayer_factories.relayer(network="hardhat", rpc_urls=[{"url": local_chain.url, "weight": 100}])
    return Api(issue(name="payments", user=user, scopes=["send"])[1])


@pytest.mark.parametrize("is_push_lost", [False, True])
def test_a_request_reaches_the_chain_by_its_push_or_by_the_sweep(
    engine: Engine, sender: Api, local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch, is_push_lost: bool
) -> None:
    monkeypatch.setattr(tasks, "engine", engine)
    monkeypatch.setattr("transactions.lanes.wake.engine", engine)
    assert sender.post(PATH, TRANSFER).status == 200
    row = Transaction.objects.get()
    (push,) = [task for task in queue.pending() if task.name == "wake_lane"]
    assert push.args == (row.lane_id,)

    if is_push_lost:
        queue.flush()
        tasks.wake_due_lanes.call_local()
    else:
        queue.execute(push)
    wait_until(lambda: is_submitted(row))

    assert local_chain.waiting() == [row.attempts.get().hash]


def test_a_request_is_confirmed_and_its_lane_released(engine: Engine, lane: Lane, local_chain: LocalChain) -> None:
    row = submitted(engine, lane)
    local_chain.mine(8)

    wait_until(lambda: status(row) == Status.CONFIRMED)
    wait_until(lambda: lease(lane) is None)

    assert [each.to_status for each in row.changes.order_by("version")] == ["sent", "submitted", "mined", "confirmed"]


def test_what_another_worker_got_the_push_of_is_found_by_the_poll(
    engine: Engine, lane: Lane, only_pushes: None
) -> None:
    first = submitted(engine, lane)
    second = request(lane, 2)
    wait_until(lambda: is_submitted(second))

    actions.cancel(first.pk, by="ops")
    wait_until(lambda: first.attempts.filter(purpose=Attempt.Purpose.CANCEL).exists())


def test_a_lane_that_another_worker_holds_is_left_to_it(engine: Engine, lane: Lane, local_chain: LocalChain) -> None:
    held = leasing.claim(lane.pk)
    assert held is not None
    row, other = request(lane), request(new_lane(local_chain, 1))

    engine.wake(lane.pk)
    engine.sweep()
    wait_until(lambda: is_submitted(other))

    assert (status(row), lease(lane)) == (Status.PENDING, held.lease)


def test_the_lane_of_a_killed_worker_is_taken_over_when_its_lease_ends(
    engine: Engine, lane: Lane, settings: Settings
) -> None:
    settings.LANE_LEASE_SECONDS = 1
    dead = leasing.claim(lane.pk)
    assert dead is not None
    row = request(lane)

    def sweep() -> bool:
        engine.sweep()
        return is_submitted(row)

    wait_until(sweep)

    assert lease(lane) not in {None, dead.lease}


def test_a_lease_is_renewed_for_as_long_as_a_lane_is_worked_on(
    engine: Engine, lane: Lane, settings: Settings, only_pushes: None
) -> None:
    settings.LANE_LEASE_SECONDS = 1
    submitted(engine, lane)
    held, first_end = lease(lane), lane.due_at
    assert held is not None

    wait_until(lambda: database_now() > first_end and lease(lane) == held and lane.due_at > database_now())


def test_a_stop_releases_the_lanes_for_other_workers(lane: Lane, only_pushes: None) -> None:
    with running() as first:
        submitted(first, lane)
        assert lease(lane) is not None
        first.stop(STOP_SECONDS)
        assert (lease(lane), lane.due_at <= database_now()) == (None, True)
        assert leasing.due_lanes() == [lane]

    with running() as second:
        later = request(lane, 2)
        second.sweep()
        wait_until(lambda: is_submitted(later))


def test_an_engine_that_was_stopped_is_not_woken(lane: Lane) -> None:
    row = request(lane)
    with running() as stopped:
        stopped.stop(STOP_SECONDS)
        stopped.wake(lane.pk)
        stopped.sweep()

    assert (status(row), lease(lane)) == (Status.PENDING, None)
    assert not [one for one in threading.enumerate() if one.name == "lanes"]


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (RuntimeError("a fault"), ("A turn of the lane {} failed", True)),
        # Without a traceback: there is a line for each lane and turn of an outage.
        (OperationalError("gone"), ("A turn of the lane {} failed OperationalError: gone", False)),
    ],
)
def test_a_turn_that_fails_is_logged_and_the_lane_goes_on(
    error: Exception,
    logged: tuple[str, bool],
    engine: Engine,
    lane: Lane,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    take, errors = Turn.take, [error, error]

    async def failing(turn: Turn) -> NextTurn:
        if errors:
            raise errors.pop()
        return await take(turn)

    monkeypatch.setattr(Turn, "take", failing)
    row = request(lane)
    with caplog.at_level(logging.ERROR, logger=runners.__name__):
        engine.wake(lane.pk)
        wait_until(lambda: is_submitted(row))

    text, has_traceback = logged
    lines = [(one.getMessage(), one.exc_info is not None) for one in caplog.records if one.name == runners.__name__]
    assert lines == [(text.format(lane.pk), has_traceback)] * 2
    assert Attempt.objects.count() == 1


def test_a_lane_whose_lease_was_lost_is_claimed_again_after_a_wake(
    engine: Engine, lane: Lane, local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign, leases = signing.sign, []

    def slow(*args: Any) -> signing.Signed:
        leases.append(lease(lane))
        if len(leases) == 1:
            Lane.objects.filter(pk=lane.pk).update(lease=None, due_at=timezone.now())
        return sign(*args)

    monkeypatch.setattr("transactions.lanes.turn.sign", slow)
    row = request(lane)

    def wake() -> bool:
        engine.wake(lane.pk)
        return is_submitted(row)

    wait_until(wake)

    lost, kept = leases
    assert (lost != kept, lease(lane)) == (True, kept)
    assert local_chain.waiting() == [row.attempts.get().hash]


@pytest.mark.parametrize("is_before", [False, True])
def test_a_request_that_is_accepted_around_the_release_is_not_lost(
    engine: Engine, lane: Lane, monkeypatch: pytest.MonkeyPatch, is_before: bool
) -> None:
    """Before it, nobody wakes the lane: the release itself finds the open row."""
    # One that has the lane locked when it is claimed again would leave it to the sweep, which does not run here.
    monkeypatch.setattr(ActiveLanes, "watch", lambda *runner_and_relayer: None)
    release, rows = leasing.release_if_idle, list[Transaction]()

    def accept_and_release(idle: Lane) -> bool:
        done = False if is_before else release(idle)
        if not rows:
            rows.append(request(lane))
            if not is_before:
                engine.wake(lane.pk)
        return release(idle) if is_before else done

    monkeypatch.setattr(leasing, "release_if_idle", accept_and_release)
    engine.wake(lane.pk)

    wait_until(lambda: rows and is_submitted(*rows))


def test_a_full_worker_leaves_lanes_to_others(
    engine: Engine, lane: Lane, local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leasing, "MAX_LANES", 1)
    submitted(engine, lane)
    other = new_lane(local_chain, 1)
    second = request(other)

    engine.wake(other.pk)
    with running() as another:
        another.sweep()
        wait_until(lambda: is_submitted(second))
        assert lease(other) is not None

    # Only the lane of the worker that has ended was released.
    assert (lease(lane) is None, lease(other) is None) == (False, True)


def test_nodes_that_hang_do_not_hold_up_lanes_with_other_nodes(
    engine: Engine, lane: Lane, local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "ATTEMPT_SECONDS", NEVER_SECONDS)
    monkeypatch.setattr(attempts, "DEADLINE_SECONDS", NEVER_SECONDS)
    # One set of nodes can occupy one of them.
    monkeypatch.setattr(engine_module, "NODE_THREADS", 4)
    released = threading.Event()
    with lying_node(local_chain.url) as hanging:
        hanging.lie(ANY, hold(released))
        waiting = [request(new_lane(local_chain, number, hanging.url)) for number in range(1, 7)]
        for row in waiting:
            engine.wake(row.lane_id)
        wait_until(lambda: hanging.server.requests)
        good = request(lane)
        engine.wake(lane.pk)
        wait_until(lambda: is_submitted(good))
        assert [status(row) for row in waiting] == [Status.PENDING] * 6

        released.set()
        wait_until(lambda: is_submitted(*waiting))


def test_two_workers_together_send_each_request_once(engine: Engine, local_chain: LocalChain) -> None:
    lanes = [new_lane(local_chain, number) for number in range(4)]
    rows = [[request(lane, value) for value in range(1, 11)] for lane in lanes]
    with running() as other:

        def sweep() -> bool:
            for worker in (engine, other):
                for lane in lanes:
                    worker.wake(lane.pk)
            return is_submitted(*(row for own in rows for row in own))

        wait_until(sweep)

    nonces = [list(own[0].lane.transactions.order_by("sequence").values_list("nonce", flat=True)) for own in rows]
    assert nonces == [list(range(10))] * 4
    assert Attempt.objects.count() == 40
    assert sorted(local_chain.waiting()) == sorted(Attempt.objects.values_list("hash", flat=True))


@pytest.mark.parametrize(
    ("has_pending", "advanced", "is_woken"), [(True, True, True), (False, True, False), (False, False, True)]
)
def test_a_lane_that_advances_takes_a_turn_only_if_requests_wait(
    lane: Lane, monkeypatch: pytest.MonkeyPatch, has_pending: bool, advanced: bool, is_woken: bool
) -> None:
    found = PollResult(changed={lane.pk}, advanced={lane.pk} if advanced else set())
    monkeypatch.setattr("transactions.settlement.watching.look", lambda lanes: found)

    async def look() -> bool:
        threads: Any = Inline()
        watch = runners.WatchRunner(threads, (lane.chain_id, frozenset()), 1)
        host: Any = SimpleNamespace(threads=threads)
        runner = watch.lanes[lane.pk] = runners.LaneRunner(host, lane.pk)
        runner.has_pending = has_pending
        await watch._look()
        return runner.wake.is_set()

    assert asyncio.run(look()) == is_woken
