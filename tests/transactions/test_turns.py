"""Turns of a lane on a real chain, taken one at a time: the principles that sending rests on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from pytest_django import DjangoAssertNumQueries

from chain.broadcast.sending import Broadcast, Outcome, SignedTransaction
from notifications.models import Delivery
from relayer_service.background.tasks import queue
from relayer_service.database.clock import database_now
from relayers.health import checking
from relayers.models import Relayer, RelayerHealth
from signers.backends.base import SignerError
from tests.relayers import factories as relayer_factories
from tests.relayers.factories import KEY
from tests.transactions import factories
from tests.transactions.hardhat import GWEI, RECEIVER, LocalChain
from tests.transactions.single_turns import take_turn
from transactions.changes import Changes
from transactions.lanes import broadcasting, leasing, outcomes, signing, turn
from transactions.lanes.commits import LeaseLost
from transactions.lanes.drafting import Drafting
from transactions.lanes.work import BATCH
from transactions.models import Attempt, Lane, Transaction
from transactions.requests import actions
from transactions.settlement.watching import look

pytestmark = pytest.mark.django_db


@pytest.fixture
def relayer(local_chain: LocalChain) -> Relayer:
    return relayer_factories.relayer(network="hardhat", rpc_urls=[{"url": local_chain.url, "weight": 100}])


@pytest.fixture
def lane(relayer: Relayer) -> Lane:
    """A lane that this worker holds."""
    return claim(factories.lane(relayer))


def claim(lane: Lane) -> Lane:
    claimed = leasing.claim(lane.pk)
    assert claimed is not None
    return claimed


def request(lane: Lane, value: int = 1, **changes: Any) -> Transaction:
    return factories.transaction(lane, to=RECEIVER, value_text=str(value), **changes)


def states(*rows: Transaction) -> list[tuple[str, int | None]]:
    for row in rows:
        row.refresh_from_db()
    return [(row.status, row.nonce) for row in rows]


def in_the_past(lane: Lane) -> None:
    """Have all attempts been broadcast long ago."""
    before = database_now() - timedelta(hours=1)
    Attempt.objects.filter(lane=lane).update(first_broadcast_at=before, last_broadcast_at=before, signed_at=before)


def test_a_request_is_sent_mined_and_confirmed(lane: Lane, local_chain: LocalChain) -> None:
    row = request(lane)

    take_turn(lane)
    assert states(row) == [("submitted", 0)]
    assert local_chain.waiting() == [row.attempts.get().hash]
    local_chain.mine(1)
    look([lane])
    assert states(row) == [("mined", 0)]
    local_chain.mine(3)
    look([lane])

    assert states(row) == [("confirmed", 0)]
    assert (row.succeeded, row.gas_used, row.block_number) == (True, 21_000, 1)
    assert [each.to_status for each in row.changes.order_by("version")] == ["sent", "submitted", "mined", "confirmed"]


def test_a_signer_that_fails_leaves_no_nonce_behind(
    lane: Lane, local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nonce exists only together with signed bytes: those after the failure are not given one either."""
    rows = [request(lane, value) for value in (1, 2, 3)]
    sign = signing.sign

    def failing(signer: Any, address: str, draft: Any, *args: Any) -> Any:
        if draft.value == 2:
            raise SignerError("The server did not respond.", permanent=False)
        return sign(signer, address, draft, *args)

    monkeypatch.setattr("transactions.lanes.turn.sign", failing)
    assert take_turn(lane).failed
    lane.refresh_from_db()

    assert states(*rows) == [("submitted", 0), ("pending", None), ("pending", None)]
    assert (lane.next_nonce, lane.waiting, lane.waiting_details) == (1, "signer", "The server did not respond.")


def test_nothing_is_broadcast_whose_commit_failed(
    lane: Lane, local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = request(lane)

    def fail(changes: Changes) -> None:
        raise DatabaseError("the connection is lost")

    with monkeypatch.context() as patched:
        patched.setattr(Changes, "save", fail)
        with pytest.raises(DatabaseError):
            take_turn(lane)
    assert (states(row), local_chain.waiting()) == ([("pending", None)], [])
    take_turn(lane)

    assert states(row) == [("submitted", 0)]


@pytest.mark.parametrize("is_lost_while_signing", [False, True])
def test_a_worker_without_the_lease_commits_nothing(
    lane: Lane, local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch, is_lost_while_signing: bool
) -> None:
    """OpenZeppelin 836: two preparations of one row, of which one commits."""
    row, sign = request(lane), signing.sign

    def lose() -> None:
        Lane.objects.filter(pk=lane.pk).update(due_at=database_now(), lease=None)

    def slow(*args: Any) -> Any:
        lose()
        return sign(*args)

    with monkeypatch.context() as patched:
        if is_lost_while_signing:
            patched.setattr("transactions.lanes.turn.sign", slow)
        else:
            lose()
        with pytest.raises(LeaseLost):
            take_turn(lane)
    assert (states(row), local_chain.waiting()) == ([("pending", None)], [])
    take_turn(claim(lane))
    assert states(row) == [("submitted", 0)]


@pytest.mark.parametrize(("reason", "cares"), [("operator", True), ("chain", False)])
def test_a_held_lane_gives_no_nonce_and_cares_for_those_in_flight_on_their_chain(
    lane: Lane, local_chain: LocalChain, reason: str, cares: bool
) -> None:
    first = request(lane)
    take_turn(lane)
    local_chain.drop()
    in_the_past(lane)
    holds = {reason: {"since": "2026-11-16T12:00:00.000000Z", "details": ""}}
    Lane.objects.filter(pk=lane.pk).update(holds=holds, held_since=database_now())
    second = request(lane, 2)

    take_turn(lane)

    assert states(first, second) == [("submitted", 0), ("pending", None)]
    assert local_chain.waiting() == ([first.attempts.get().hash] if cares else [])


def test_a_paused_relayer_gets_no_new_nonce_and_its_expired_rows_are_closed_first(
    lane: Lane, relayer: Relayer, local_chain: LocalChain
) -> None:
    relayer.paused = True
    relayer.save()
    rows = [request(lane, value) for value in range(1, 20)]
    expired = request(lane, valid_until=database_now() - timedelta(seconds=1))

    take_turn(lane)

    assert (states(*rows, expired), local_chain.waiting()) == ([*[("pending", None)] * 19, ("expired", None)], [])


def test_all_pending_rows_expire_in_one_turn_even_if_no_node_answers(lane: Lane, relayer: Relayer) -> None:
    without_nodes(relayer)
    rows = [request(lane, valid_until=database_now() - timedelta(seconds=1)) for _ in range(40)]
    waiting = request(lane)
    next_turn = take_turn(lane)
    lane.refresh_from_db()

    assert next_turn.failed
    assert states(*rows, waiting) == [*[("expired", None)] * 40, ("pending", None)]
    assert (lane.waiting, lane.waiting_details) == ("nodes", "No node answered: connection failed.")


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.NONCE_TOO_LOW, Outcome.REPLACEMENT_UNDERPRICED])
def test_an_unclear_outcome_is_followed_by_the_same_bytes(
    lane: Lane, local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    """Nobody knows who has them: never other bytes at another nonce (alto 748)."""
    row, sent = request(lane), []

    def unclear(nodes: Any, transactions: Sequence[SignedTransaction], *args: Any, **kwargs: Any) -> list[Broadcast]:
        sent.append([each.raw for each in transactions])
        return [Broadcast(outcome, "the node said something")] * len(transactions)

    monkeypatch.setattr(broadcasting, "send", unclear)
    take_turn(lane)
    in_the_past(lane)
    Attempt.objects.update(first_broadcast_at=database_now(), signed_at=database_now())
    take_turn(lane)

    assert states(row) == [("sent", 0)]
    assert sent[0] == sent[1] == [bytes(row.attempts.get().raw)]
    assert row.status_reason == f"{outcomes.REASONS[outcome]} The node answered: the node said something"


def test_a_dropped_transaction_is_broadcast_again_at_a_price_ceiling(
    lane: Lane, relayer: Relayer, local_chain: LocalChain
) -> None:
    """OpenZeppelin 808: the cap stops a bump, never a rebroadcast."""
    row = request(lane)
    take_turn(lane)
    relayer.policies = {"gas_price_cap": int(row.attempts.get().max_fee_text)}
    relayer.save()
    local_chain.drop()
    local_chain.rpc("hardhat_setNextBlockBaseFeePerGas", hex(50 * GWEI))
    local_chain.mine(1)
    in_the_past(lane)

    take_turn(lane)
    (attempt,) = row.attempts.all()

    assert (local_chain.waiting(), attempt.broadcasts) == ([attempt.hash], 2)
    row.refresh_from_db()
    assert "is not raised, because of the relayer's gas_price_cap" in row.status_reason


def disable(relayer: Relayer, **changes: Any) -> None:
    RelayerHealth.objects.filter(pk=relayer.pk).update(
        **checking.disabling_columns("The nonce could not be read."), **changes
    )
    relayer.refresh_from_db()


def test_a_disabled_relayer_gets_no_new_nonce_and_cares_for_those_in_flight(
    lane: Lane, relayer: Relayer, local_chain: LocalChain
) -> None:
    first, canceled = request(lane), request(lane, 2)
    take_turn(lane)
    disable(relayer)
    second = request(lane, 3)
    local_chain.drop()
    in_the_past(lane)
    actions.cancel(canceled.pk, by="tests")

    take_turn(lane)

    assert states(first, canceled, second) == [("submitted", 0), ("submitted", 1), ("pending", None)]
    assert [each.purpose for each in canceled.attempts.order_by("number")] == ["send", "cancel"]
    assert len(local_chain.waiting()) == 2


def test_a_turn_that_reads_the_nonce_of_a_disabled_relayer_has_it_checked(
    lane: Lane, relayer: Relayer, local_chain: LocalChain, django_capture_on_commit_callbacks: Any
) -> None:
    later, urls = database_now() + timedelta(hours=1), relayer.custom_rpc_urls or []
    request(lane)

    def is_checked_after(moment: timedelta) -> bool:
        disable(relayer, due_at=later, checked_at=database_now() - moment)
        take_turn(lane)
        relayer.refresh_from_db()
        return relayer.health.due_at is None or relayer.health.due_at < later

    # Not if nothing is read.
    without_nodes(relayer)
    assert not is_checked_after(timedelta(seconds=15))
    relayer.set_rpc_urls(urls)
    relayer.save()
    with django_capture_on_commit_callbacks(execute=True):
        assert is_checked_after(timedelta(seconds=15))
    assert [task.name for task in queue.pending()] == ["check_relayers_now"]
    # Nor while it was checked a moment ago, and is still disabled.
    assert not is_checked_after(timedelta(0))


def test_a_relayer_that_is_disabled_while_signing_gets_no_nonce(
    lane: Lane, relayer: Relayer, local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, sign = request(lane), signing.sign
    RelayerHealth.objects.update(failed_checks=1, due_at=database_now())

    def slow(*args: Any) -> Any:
        (checked,) = RelayerHealth.objects.select_related("relayer").claim(1, timedelta(minutes=1))
        checking.write([(checked, checking.AccountReading(reason="connection failed"))])
        return sign(*args)

    with monkeypatch.context() as patched:
        patched.setattr("transactions.lanes.turn.sign", slow)
        with pytest.raises(LeaseLost):
            take_turn(lane)
    relayer.refresh_from_db()
    assert (states(row), relayer.health.system_disabled) == ([("pending", None)], True)

    # When the health check enables it, its lane is free for the next worker.
    take_turn(claim(lane))
    RelayerHealth.objects.update(due_at=database_now())
    checking.check_due()
    take_turn(claim(lane))
    assert states(row) == [("submitted", 0)]


def without_nodes(relayer: Relayer) -> None:
    relayer.set_rpc_urls([{"url": "http://127.0.0.1:1", "weight": 100}])
    relayer.save()


def test_a_turn_is_not_repeated_for_expired_rows_that_cannot_be_closed(lane: Lane, relayer: Relayer) -> None:
    """The database is another server than before, and no node answers: the watch cannot hold the lane."""
    without_nodes(relayer)
    Lane.objects.update(database_identity="another one")
    row = request(lane, valid_until=database_now() - timedelta(seconds=1))

    assert take_turn(lane).seconds > 0
    assert states(row) == [("pending", None)]


def test_a_row_in_flight_expires_by_a_noop_at_its_nonce(lane: Lane, local_chain: LocalChain) -> None:
    row = request(lane)
    take_turn(lane)
    Transaction.objects.filter(pk=row.pk).update(valid_until=database_now())

    take_turn(lane)
    take_turn(lane)
    purposes = [attempt.purpose for attempt in row.attempts.order_by("number")]
    local_chain.mine(4)
    look([lane])
    local_chain.mine(4)
    look([lane])

    assert purposes == ["send", "expire"]
    assert states(row) == [("expired", 0)]


def test_staff_choose_the_price_of_a_noop_in_place_of_that_of_an_expiry(lane: Lane, local_chain: LocalChain) -> None:
    row = request(lane)
    take_turn(lane)
    Transaction.objects.filter(pk=row.pk).update(valid_until=database_now())
    take_turn(lane)
    take_turn(lane)
    price = 2 * int(row.attempts.latest("number").max_fee_text)
    actions.cancel(row.pk, by="ops", noop_price=price)

    take_turn(lane)
    take_turn(lane)

    attempts = row.attempts.order_by("number")
    assert [attempt.purpose for attempt in attempts] == ["send", "expire", "cancel"]
    assert (attempts[2].max_fee_text, local_chain.waiting()) == (str(price), [attempts[2].hash])


def test_the_window_limits_nonces_in_flight(lane: Lane, local_chain: LocalChain) -> None:
    Lane.objects.filter(pk=lane.pk).update(window=2)
    rows = [request(lane, value) for value in (1, 2, 3)]
    for _ in range(2):
        assert take_turn(lane).has_pending
        assert states(*rows) == [("submitted", 0), ("submitted", 1), ("pending", None)]
        assert local_chain.waiting() == [row.attempts.get().hash for row in rows[:2]]
    local_chain.mine(1)

    assert not take_turn(lane).has_pending

    assert states(rows[2]) == [("submitted", 2)]


def test_a_full_window_is_not_followed_by_a_turn_at_once(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows behind it would be simulated in vain. The watch wakes the lane once they may have room."""
    Lane.objects.filter(pk=lane.pk).update(window=5)
    look([lane])
    rows = [request(lane) for _ in range(BATCH + 1)]
    planned: list[int] = []
    plan = Drafting.plan

    def counting(drafting: Drafting, rows: Sequence[Transaction]) -> Any:
        planned.append(len(rows))
        return plan(drafting, rows)

    monkeypatch.setattr(Drafting, "plan", counting)

    next_turn = take_turn(lane)

    # Also behind a full batch, so that the watch wakes the lane when it is mined.
    assert (next_turn.seconds > 0, next_turn.has_pending, states(rows[-1])) == (True, True, [("pending", None)])
    assert planned == [5]
    assert take_turn(lane).seconds > 0


def test_rows_behind_those_that_wait_are_planned_at_once(lane: Lane) -> None:
    Lane.objects.filter(pk=lane.pk).update(window=2)
    look([lane])
    poor = [request(lane, 10**30) for _ in range(4)]
    row = request(lane)

    assert take_turn(lane).seconds == 0
    take_turn(lane)

    assert states(*poor, row) == [*[("pending", None)] * 4, ("submitted", 0)]


def test_a_turn_that_sends_makes_few_queries(
    lane: Lane, local_chain: LocalChain, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    request(lane)
    take_turn(lane)
    rows = [request(lane, value) for value in (2, 3, 4)]

    # Savepoints included.
    with django_assert_max_num_queries(23):
        take_turn(lane)

    assert states(*rows) == [("submitted", nonce) for nonce in (1, 2, 3)]


def test_a_lane_without_open_rows_is_released_at_once(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    assert take_turn(lane).is_idle
    assert leasing.release_if_idle(lane)
    request(lane)
    assert leasing.due_lanes() == [lane]
    claimed = claim(lane)
    assert not leasing.release_if_idle(claimed)
    # Accepted after the lane was found to have no work.
    monkeypatch.setattr(leasing, "_without_work", lambda pk: [lane])
    assert not leasing.release_if_idle(claimed)


@pytest.mark.django_db(transaction=True)
def test_a_webhook_that_is_deleted_during_a_broadcast_gets_no_event(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = relayer_factories.notification()
    Relayer.objects.update(notification=webhook)
    # An event after an outage does not report it.
    leasing.set_waiting(lane, "nodes", "timeout")
    first = request(lane)
    take_turn(lane)
    delivery = Delivery.objects.get(event="transaction.submitted")
    assert json.loads(bytes(delivery.body))["data"]["status_reason"].startswith("In the mempool since")
    row = request(lane)

    def send(*args: Any) -> list[broadcasting.Sent]:
        Relayer.objects.update(notification=None)
        Delivery.objects.all().delete()
        webhook.delete()
        return broadcasting.broadcast(*args)

    monkeypatch.setattr(turn, "broadcast", send)
    take_turn(lane)

    assert states(first, row) == [("submitted", 0), ("submitted", 1)]


@pytest.mark.parametrize(("action", "status"), [("close", "failed"), ("expire", "expired"), ("cancel", "canceled")])
def test_a_queued_row_with_an_action_is_closed_and_never_sent(
    lane: Lane, local_chain: LocalChain, action: str, status: str
) -> None:
    """It lost its nonce to another program: its no-op would have closed it."""
    row = request(lane, requested_action=action, action_reason="No node accepts it.")

    take_turn(lane)

    assert (states(row), local_chain.waiting()) == ([(status, None)], [])
    assert (row.status_reason, row.requested_action) == ("No node accepts it.", "")


def test_a_confirmed_row_that_a_deep_reorg_removed_is_broadcast_again(lane: Lane, local_chain: LocalChain) -> None:
    """Otherwise those behind it wait for ever: their nonces follow its nonce."""
    before = local_chain.snapshot()
    first = request(lane)
    take_turn(lane)
    local_chain.mine(4)
    look([lane])
    look([lane])
    assert states(first) == [("confirmed", 0)]
    second = request(lane, 2)
    take_turn(lane)
    local_chain.reorganise(before)
    Lane.objects.filter(pk=lane.pk).update(chain_nonce=0)
    Attempt.objects.filter(lane=lane).update(last_broadcast_at=database_now() - timedelta(hours=1))

    take_turn(lane)

    assert local_chain.waiting() == [first.attempts.get().hash, second.attempts.get().hash]


@pytest.mark.parametrize(
    ("next_nonce", "is_mined"),
    [(0, False), (0, True), (None, False)],
    ids=["pending", "mined", "pending at first contact after an outage"],
)
def test_a_nonce_that_another_program_has_used_is_not_assigned(
    lane: Lane, local_chain: LocalChain, next_nonce: int | None, is_mined: bool
) -> None:
    theirs = local_chain.send_from(KEY, 0, to=RECEIVER)
    if is_mined:
        local_chain.mine()
    row = request(lane)
    Lane.objects.update(waiting="nodes", next_nonce=next_nonce)

    take_turn(lane)

    lane.refresh_from_db()
    assert (states(row), local_chain.waiting()) == ([("pending", None)], [] if is_mined else [theirs])
    assert (lane.next_nonce, lane.waiting, Attempt.objects.count()) == (next_nonce, "", 0)
