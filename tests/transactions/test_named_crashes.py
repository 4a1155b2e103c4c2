"""Failures that users of other relayers have reported, each with its number: crashes and nonces."""

from __future__ import annotations

import pytest

from relayer_service.database.clock import DatabaseNow
from tests.chain.answering_node import ChangeNetwork
from tests.transactions.engines import Engine, at_step, end_lease, let_time_pass
from tests.transactions.hardhat import signed
from tests.transactions.lab import Lab, attempts
from transactions.models import Attempt, ChainWatch, Lane, Status, StatusChange, Transaction

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_engine]


def test_openzeppelin_683_an_emptied_store_starts_at_the_count_of_the_chain(lab: Lab) -> None:
    lab.send("first")
    lab.send("second")
    lab.finish()
    for model in (StatusChange, Attempt, Transaction, Lane, ChainWatch):
        model._base_manager.all().delete()
    lab.oracle.accepted.clear()
    lab.engine.die()

    third = lab.send("third")
    lab.oracle.since = lab.chain.head() + 1
    lab.finish()

    third.refresh_from_db()
    assert (third.nonce, third.status) == (2, Status.CONFIRMED)


@pytest.mark.parametrize("step", ["planned", "signed", "before_commit"])
def test_openzeppelin_818_failures_before_the_commit_use_no_nonce(lab: Lab, step: str) -> None:
    lab.send("first")
    for _ in range(5):
        lab.turn_killed_at(step)
    assert (lab.lane.next_nonce or 0, lab.chain.count(lab.sender.address)) == (0, 0)

    lab.finish()

    assert lab.statuses() == [(0, Status.CONFIRMED)]


@pytest.mark.parametrize("step", ["read", "planned", "signed"])
def test_openzeppelin_836_two_workers_with_one_row_commit_one_nonce(lab: Lab, step: str) -> None:
    row = lab.send("first")
    other = Engine(lab.lane.pk)

    def overtake() -> None:
        end_lease(lab.lane.pk)
        other.turn()

    with at_step(step, overtake):
        lab.turn()

    assert [attempt.nonce for attempt in attempts(row)] == [0]
    lab.engine = other
    lab.finish()
    assert lab.statuses() == [(0, Status.CONFIRMED)]


def test_openzeppelin_843_rows_never_broadcast_leave_in_the_order_of_nonces(
    change_network: ChangeNetwork, lab: Lab
) -> None:
    change_network(mempool="none", confirmations=2, finality_depth=8)
    for number in range(16):
        lab.send(f"request {number}")
    lab.turn_killed_at("committed")
    assert lab.chain.waiting() == []
    # This node refuses every nonce but the next.
    lab.chain.mine_at_once()

    lab.turn()

    assert lab.chain.count(lab.sender.address) == 16
    lab.chain.mine_on_demand()
    lab.finish()
    assert lab.statuses() == [(nonce, Status.CONFIRMED) for nonce in range(16)]


@pytest.mark.parametrize("step", ["committed", "broadcast"])
def test_openzeppelin_862_a_bump_is_known_when_it_is_mined_after_a_crash(lab: Lab, step: str) -> None:
    row = lab.send("first")
    lab.turn()
    lab.chain.base_fee *= 20
    lab.block()
    wait_for_bump()
    lab.turn_killed_at(step)
    first, bump = attempts(row)
    assert (first.purpose, bump.purpose, bump.first_broadcast_at) == ("send", "bump", None)

    lab.finish()

    row.refresh_from_db()
    assert (row.status, row.mined_attempt) == (Status.CONFIRMED, bump)


def test_openzeppelin_891_another_worker_takes_over_what_a_dead_one_has_submitted(lab: Lab) -> None:
    lab.send("first")
    lab.turn()
    dead = lab.engine.lane
    assert dead is not None
    lab.chain.block()

    lab.engine = Engine(lab.lane.pk)
    lab.turn()
    assert lab.engine.lane is None
    end_lease(lab.lane.pk)
    lab.finish()

    assert lab.statuses() == [(0, Status.CONFIRMED)]


def test_rrelayer_36_a_row_whose_nonce_is_used_elsewhere_gets_another(lab: Lab) -> None:
    row = lab.send("first")
    lab.turn()
    lab.oracle.outside.add(lab.chain.spend_nonce(lab.sender.key, lab.sender.address))

    lab.finish()

    row.refresh_from_db()
    assert (row.nonce, row.status) == (1, Status.CONFIRMED)
    external = Transaction.objects.get(kind=Transaction.Kind.EXTERNAL)
    assert external.nonce == 0


def test_rrelayer_99_a_request_that_ends_in_the_queue_leaves_no_gap(lab: Lab) -> None:
    lab.send("first")
    queued = lab.send("second")
    lab.send("third")
    Transaction.objects.filter(pk=queued.pk).update(valid_until=queued.created_at)

    lab.finish()

    assert lab.statuses() == [(0, Status.CONFIRMED), (None, Status.EXPIRED), (1, Status.CONFIRMED)]


def test_alto_747_a_replacement_that_comes_too_late_is_not_sent_again(lab: Lab) -> None:
    row = lab.send("first")
    lab.turn()
    lab.chain.base_fee *= 20
    lab.block()
    wait_for_bump()

    def mine_the_first() -> None:
        lab.chain.base_fee //= 20
        lab.chain.block()

    with at_step("before_broadcast", mine_the_first):
        lab.turn()

    first, bump = attempts(row)
    assert bump.outcome == "nonce too low"
    lab.finish()
    row.refresh_from_db()
    assert (row.status, row.nonce, row.mined_attempt) == (Status.CONFIRMED, 0, first)
    assert len(attempts(row)) == 2


def test_alto_748_a_refused_replacement_is_no_success(lab: Lab) -> None:
    row = lab.send("first")
    price = {"maxFeePerGas": 900 * 10**9, "maxPriorityFeePerGas": 800 * 10**9}
    other = signed(lab.sender.key, 0, to=lab.sender.address, **price)

    def be_first() -> None:
        lab.oracle.outside.add(lab.chain.send_raw(other))

    with at_step("before_broadcast", be_first):
        lab.turn()

    row.refresh_from_db()
    assert (row.status, attempts(row)[0].outcome) == (Status.SENT, "replacement underpriced")
    lab.finish()
    row.refresh_from_db()
    assert (row.status, row.nonce) == (Status.CONFIRMED, 1)


def wait_for_bump() -> None:
    """Let so much time pass that a price which nobody accepts is raised; it was broadcast again just now."""
    let_time_pass(600)
    Attempt.objects.update(last_broadcast_at=DatabaseNow())
