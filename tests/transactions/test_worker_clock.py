"""A worker whose clock is wrong: the age of a block is that by the database's clock."""

from __future__ import annotations

import time

import pytest

from tests.chain.answering_node import ChangeNetwork
from tests.relayers import factories as relayers
from tests.transactions import factories
from tests.transactions.hardhat import RECEIVER, LocalChain
from tests.transactions.single_turns import take_turn
from transactions.lanes import leasing
from transactions.settlement.watching import look


@pytest.mark.django_db
@pytest.mark.parametrize("seconds", [660, -1_560])
def test_a_worker_whose_clock_is_wrong_sends(
    local_chain: LocalChain, change_network: ChangeNetwork, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    change_network(max_head_age_seconds=600, confirmations=1, finality_depth=2)
    now = int(time.time())
    local_chain.rpc("evm_setNextBlockTimestamp", now + 30)
    local_chain.mine()
    relayer = relayers.relayer(network="hardhat", rpc_urls=[{"url": local_chain.url, "weight": 100}])
    lane = leasing.claim(factories.lane(relayer).pk)
    assert lane is not None
    row = factories.transaction(lane, to=RECEIVER, value_text="1")
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + seconds)

    take_turn(lane)
    local_chain.rpc("evm_setNextBlockTimestamp", now + 60)
    local_chain.mine()
    look([lane])

    row.refresh_from_db()
    assert row.status == "mined"
