"""What a relayer keeps: for its transactions in flight, whichever of their attempts is mined, and as its reserve."""

from __future__ import annotations

from typing import Any

import pytest

from relayers import guards
from relayers.models import Relayer
from tests.relayers import factories as relayers
from tests.transactions import factories
from tests.transactions.hardhat import GWEI, RECEIVER, LocalChain
from tests.transactions.single_turns import take_turn
from transactions.lanes import leasing, work
from transactions.lanes.prices.costs import in_flight_costs
from transactions.models import Attempt, Lane, Status, Transaction
from transactions.requests import actions, dry_run
from transactions.top_ups import sending

pytestmark = pytest.mark.django_db

PURPOSE = Attempt.Purpose


@pytest.fixture
def lane() -> Lane:
    claimed = leasing.claim(factories.lane(relayers.relayer(), next_nonce=8).pk)
    assert claimed is not None
    return claimed


def in_flight(lane: Lane, nonce: int, costs: dict[PURPOSE, int], **changes: Any) -> Transaction:
    """Create a transaction with attempts that cost this much, the newest last."""
    row = factories.transaction(lane, nonce=nonce, status=Status.SUBMITTED, **changes)
    for purpose, cost in costs.items():
        factories.attempt(row, purpose=purpose, max_cost_text=str(cost))
    return row


def test_the_attempt_that_costs_most_is_reserved(lane: Lane, django_assert_num_queries: Any) -> None:
    rows = [
        in_flight(lane, 5, {PURPOSE.SEND: 9, PURPOSE.BUMP: 10}),
        in_flight(lane, 6, {PURPOSE.SEND: 400, PURPOSE.REPLACE: 300}, payload_version=2),
        in_flight(lane, 7, {PURPOSE.SEND: 5_000, PURPOSE.CANCEL: 1_000}),
    ]
    # Attempts of one payload are not read.
    with django_assert_num_queries(0):
        assert in_flight_costs(rows[:1]) == {rows[0].pk: 10}
    # It had another nonce before, which another program has used.
    factories.attempt(rows[1], number=0, nonce=1, hash="0x01", max_cost_text="90000")
    Transaction.objects.filter(pk=rows[1].pk).update(last_attempt=rows[1].attempts.get(purpose=PURPOSE.REPLACE))

    loaded = work.load(lane)
    assert loaded is not None
    assert loaded.costs == {rows[0].pk: 10, rows[1].pk: 400, rows[2].pk: 5_000}
    assert (loaded.in_flight_cost, loaded.cost_of_others(rows[2])) == (5_410, 410)
    assert lane.relayer is not None
    assert (sending.reserved(lane.relayer), dry_run._in_flight_cost(lane)) == (5_410, 5_410)


def test_what_a_replaced_payload_reserves_is_free_for_the_next_attempt(local_chain: LocalChain) -> None:
    """The balance covers the first payload and no more: neither another transaction, but a higher price of this."""
    account = relayers.relayer(network="hardhat", rpc_urls=[{"url": local_chain.url, "weight": 100}])
    lane = leasing.claim(factories.lane(account).pk)
    assert lane is not None
    row = factories.transaction(lane, to=RECEIVER, value_text=str(10**18))
    take_turn(lane)
    cost = int(row.attempts.get().max_cost_text)
    local_chain.rpc("hardhat_setBalance", account.address, hex(cost))
    actions.replace(row.pk, {"to": RECEIVER, "value": 1}, by="ops")
    take_turn(lane)
    other = factories.transaction(lane, to=RECEIVER, value_text="1")
    actions.speed_up(row.pk, {"max_fee_per_gas": 90 * GWEI, "max_priority_fee_per_gas": 9 * GWEI}, by="ops")
    take_turn(lane)

    assert [each.purpose for each in row.attempts.order_by("number")] == ["send", "replace", "bump"]
    other.refresh_from_db()
    assert (other.status, other.nonce) == ("pending", None)
    assert other.status_reason.startswith("Waiting for funds")


ETHER = 10**18


@pytest.mark.parametrize(
    ("kept", "status", "missing"),
    [
        # Only a warning, and a token of staff can change it.
        ({"policies": {"min_balance": 3 * ETHER}}, "submitted", ""),
        ({"reserve_text": str(3 * ETHER)}, "pending", "1 ETH"),
    ],
)
def test_the_reserve_stops_sending_and_the_minimum_balance_does_not(
    local_chain: LocalChain, kept: dict[str, Any], status: str, missing: str
) -> None:
    account = relayers.relayer(network="hardhat", rpc_urls=[{"url": local_chain.url, "weight": 100}], **kept)
    lane = leasing.claim(factories.lane(account).pk)
    assert lane is not None
    local_chain.rpc("hardhat_setBalance", account.address, hex(2 * ETHER))
    row = factories.transaction(lane, to=RECEIVER, value_text="1000")
    estimate = dry_run.check(account, {"to": RECEIVER, "value": 1000}).estimate
    take_turn(lane)

    row.refresh_from_db()
    lane.refresh_from_db()
    assert (row.status, lane.waiting) == (status, "funds" if missing else "")
    # A dry run says so before.
    assert (estimate.reason or "").startswith("Waiting for funds: 1.0") == bool(missing)
    if missing:
        assert 0 < int(lane.missing_text) - ETHER < ETHER // 100
        # Raised or lowered, it takes the lane from a turn that has read another one.
        guards.note_change([account.pk], {"reserve_text"})
        assert leasing.claim(lane.pk) is not None


def test_a_higher_price_does_not_use_the_reserve_but_a_no_op_does(local_chain: LocalChain) -> None:
    account = relayers.relayer(network="hardhat", rpc_urls=[{"url": local_chain.url, "weight": 100}])
    lane = leasing.claim(factories.lane(account).pk)
    assert lane is not None
    local_chain.rpc("evm_setAutomine", False)
    row = factories.transaction(lane, to=RECEIVER, value_text="1000")
    take_turn(lane)
    balance = int(local_chain.rpc("eth_getBalance", account.address, "latest"), 16)
    cost = int(row.attempts.get().max_cost_text)
    Relayer.objects.update(reserve_text=str(balance - cost))
    actions.speed_up(row.pk, {"max_fee_per_gas": 90 * GWEI, "max_priority_fee_per_gas": 9 * GWEI}, by="ops")
    take_turn(lane)
    row.refresh_from_db()
    assert "because of the balance without the relayer's reserve, which covers" in row.status_reason
    actions.cancel(row.pk, by="ops")
    take_turn(lane)
    assert [each.purpose for each in row.attempts.order_by("number")] == ["send", "cancel"]
