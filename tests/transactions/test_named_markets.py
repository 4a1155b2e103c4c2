"""Prices: a cap during a spike, no base fee at all, and rows that nobody can pay for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.transactions.engines import let_time_pass
from tests.transactions.hardhat import GWEI
from tests.transactions.lab import Lab, attempts
from tests.transactions.mempool import MempoolChain
from transactions.models import Status

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_engine]


def test_openzeppelin_808_a_spike_above_the_cap_does_not_leave_a_lane_stuck(
    mempool: MempoolChain, transactional_db: None, settings: Any
) -> None:
    settings.EXTENSIONS = ["transactions"]
    lab = Lab(mempool, policies={"gas_price_cap": 5 * GWEI})
    row = lab.send("first")
    lab.turn()
    lab.chain.base_fee = 50 * GWEI
    lab.block(5)
    let_time_pass(3_600)
    lab.turn()
    # Nodes forget what is too cheap for too long.
    lab.chain.drop()
    let_time_pass(3_600)
    lab.restart()

    lab.turn()

    row.refresh_from_db()
    assert [int(attempt.max_fee_text) for attempt in attempts(row)][1:] == [5 * GWEI]
    assert lab.chain.waiting() == [attempts(row)[-1].hash]
    assert row.status_reason == "Its price of 5 gwei is not raised, because of the relayer's gas_price_cap of 5 gwei."
    lab.send("second")
    lab.chain.base_fee = GWEI
    lab.finish()
    assert lab.statuses() == [(0, Status.CONFIRMED), (1, Status.CONFIRMED)]


def test_a_chain_without_a_base_fee_is_sent_on(lab: Lab) -> None:
    lab.chain.base_fee = 0
    lab.chain.block(12)
    lab.send("first")

    lab.finish()

    assert lab.statuses() == [(0, Status.CONFIRMED)]


def test_sixteen_poisoned_rows_do_not_hold_up_a_good_one(lab: Lab) -> None:
    cheap: dict[str, Any] = {"max_fee_per_gas": 1_000, "max_priority_fee_per_gas": 1_000, "speed": None}
    for number in range(16):
        lab.send(f"poisoned {number}", **cheap)
    good = lab.send("good")

    for _ in range(4):
        lab.turn()
        lab.block()
        lab.restart()

    good.refresh_from_db()
    assert (good.nonce, good.status) == (0, Status.CONFIRMED)
    assert lab.statuses()[:16] == [(None, Status.PENDING)] * 16
