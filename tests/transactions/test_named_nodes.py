"""Failures that users of other relayers have reported, and lies: nodes whose answers are not what they seem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.transactions import lies
from tests.transactions.accounts import FUNDS
from tests.transactions.engines import run_until_final
from tests.transactions.lab import Lab, attempts
from tests.transactions.lying_node import SEND, Answer, Call, LyingNode, Request, lying_node
from tests.transactions.mempool import MempoolChain
from transactions.models import Status

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_engine]

RECEIPT, HISTORY = "eth_getTransactionReceipt", "eth_feeHistory"


def without_receipt(request: Request, call: Call) -> Answer:
    return lies.returning(call, None) if call["method"] == RECEIPT else request.pass_on(call)


def a_million_times(request: Request, call: Call) -> Answer:
    answer = request.pass_on(call)
    if call["method"] == HISTORY:
        fees = [hex(1_000_000 * int(fee, 16)) for fee in answer["result"]["baseFeePerGas"]]
        answer["result"]["baseFeePerGas"] = fees
    return answer


@pytest.fixture
def node(mempool: MempoolChain) -> Iterator[LyingNode]:
    with lying_node(mempool.url) as found:
        yield found


@pytest.fixture
def lab(node: LyingNode, mempool: MempoolChain, transactional_db: None, settings: Any) -> Lab:
    settings.EXTENSIONS = ["transactions"]
    return Lab(mempool, url=node.url)


def test_openzeppelin_681_an_internal_error_about_a_nonce_pauses_no_node(lab: Lab, node: LyingNode) -> None:
    lab.send("first")
    node.lie(SEND, lies.refuse("nonce too low: next nonce 7, tx nonce 0", -32603))
    for _ in range(10):
        lab.turn()
        lab.restart()
    assert lab.lane.waiting == ""
    node.be_honest()

    lab.finish()

    assert lab.statuses() == [(0, Status.CONFIRMED)]


def test_a_missing_receipt_of_a_mined_transaction_proves_nothing(lab: Lab, node: LyingNode) -> None:
    row = lab.send("first")
    lab.turn()
    node.lie(RECEIPT, lies.per_call(without_receipt))
    lab.block(20)
    row.refresh_from_db()
    assert (row.status, row.nonce, len(attempts(row))) == (Status.SUBMITTED, 0, 1)
    node.be_honest()

    lab.finish()

    assert lab.statuses() == [(0, Status.CONFIRMED)]


def test_a_transaction_that_a_node_forgets_is_broadcast_again(lab: Lab, node: LyingNode) -> None:
    row = lab.send("first")
    node.lie_once(SEND, lies.forget)
    lab.turn()
    lab.block(3)
    row.refresh_from_db()
    assert (row.status, lab.chain.count(lab.sender.address)) == (Status.SUBMITTED, 0)

    lab.finish()

    assert [attempt.purpose for attempt in attempts(row)] == ["send"]


def test_a_lying_fee_history_does_not_burn_funds(lab: Lab, node: LyingNode) -> None:
    node.lie(HISTORY, lies.per_call(a_million_times))
    row = lab.send("first")
    lab.turn()
    node.be_honest()

    lab.finish()

    # A thousand gwei would be a thousand times the base fee.
    assert max(int(attempt.max_fee_text) for attempt in attempts(row)) < 1_000 * 10**9


def test_a_replaced_development_chain_can_be_used_without_doing_anything(lab: Lab) -> None:
    lab.send("first")
    lab.finish()
    lab.chain.restart()
    assert lab.chain.deploy_ledger() == lab.chain.ledger
    lab.chain.set_balance(lab.sender.address, FUNDS)
    lab.oracle.accepted.clear()
    lab.oracle.since = 0

    second = lab.send("second")
    run_until_final(lab.engine, lab.chain)

    second.refresh_from_db()
    assert (second.epoch, second.nonce, second.status) == (1, 0, Status.CONFIRMED)
    assert {one: len(ran) for one, ran in lab.oracle.executed().items()} == {second.identifier: 1}
