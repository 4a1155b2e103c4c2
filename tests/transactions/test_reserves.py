"""What transactions in flight can cost, whichever of their attempts is mined."""

from __future__ import annotations

from typing import Any

import pytest

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
