"""Nodes that are behind: what is mined is not spent again from a balance of before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chain.errors import InsufficientData
from relayers.models import Relayer
from tests.chain.answering_node import node_answering
from tests.relayers import factories as relayers
from tests.transactions import factories
from tests.transactions.hardhat import RECEIVER, LocalChain
from tests.transactions.lane_values import NOW, network
from tests.transactions.lies import lag
from tests.transactions.lying_node import LyingNode, lying_node
from tests.transactions.single_turns import take_turn
from transactions.lanes import leasing
from transactions.lanes.prices.context import account_readings, read_context
from transactions.lanes.prices.costs import settled_costs
from transactions.lanes.prices.market import Sender
from transactions.models import Lane, Transaction
from transactions.settlement.watching import look
from transactions.top_ups import sending

ETH = 10**18
ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"


@pytest.fixture
def node(local_chain: LocalChain) -> Iterator[LyingNode]:
    with lying_node(local_chain.url) as found:
        yield found


@pytest.fixture
def lane(node: LyingNode, local_chain: LocalChain) -> Lane:
    relayer: Relayer = relayers.relayer(network="hardhat", rpc_urls=[{"url": node.url, "weight": 100}])
    local_chain.set_balance(relayer.address, 10 * ETH)
    local_chain.mine()
    claimed = leasing.claim(factories.lane(relayer).pk)
    assert claimed is not None
    return claimed


def request(lane: Lane, value: int) -> Transaction:
    return factories.transaction(lane, to=RECEIVER, value_text=str(value))


@pytest.mark.django_db
@pytest.mark.parametrize("blocks", [1, 4], ids=["mined", "confirmed"])
def test_a_node_that_is_behind_does_not_over_commit_the_balance(
    lane: Lane, node: LyingNode, local_chain: LocalChain, blocks: int
) -> None:
    paid = request(lane, 6 * ETH)
    take_turn(lane)
    local_chain.mine(blocks)
    look([lane])
    look([lane])
    node.lie("eth_getBalance", lag(blocks))
    second = request(lane, 6 * ETH)
    take_turn(lane)
    second.refresh_from_db()
    assert (second.status, second.nonce) == ("pending", None)
    assert second.status_reason.startswith("Waiting for funds: 2.")
    assert second.reason_code == "funds"
    lane.refresh_from_db()
    assert int(lane.missing_text) // 10**18 == 2

    assert lane.relayer is not None
    reserved = int(paid.attempts.get().max_cost_text)
    assert settled_costs(Lane.objects.get(), 0) == {paid.pk: reserved}
    assert [sending.reserved(lane.relayer, count) for count in (0, 1, None)] == [6 * ETH + reserved, 6 * ETH, 6 * ETH]
    # The node has caught up, and a smaller one is sent.
    node.be_honest()
    third = request(lane, 3 * ETH)
    take_turn(lane)
    third.refresh_from_db()
    assert (third.status, third.nonce) == ("submitted", 1)


@pytest.mark.parametrize("method", ["eth_getBalance", "eth_getTransactionCount"])
def test_a_balance_counts_only_with_the_lower_count_of_those_around_it(method: str) -> None:
    """Without the count, what the balance does not include yet is unknown."""
    balance, count = (account_readings(ADDRESS)[name] for name in ("balance", "count"))
    counts = ["eth_getTransactionCount", "eth_getBalance", "eth_getTransactionCount"]
    assert [call.method for call in balance.calls] == counts
    assert [balance.calls[0], balance.calls[2]] == [*count.calls]
    assert [count.read(answers) for answers in (["0x1", "0x2"], ["0x2", "0x1"])] == [1, 1]
    answers = {"eth_getBalance": {"result": "0x5"}, "eth_getTransactionCount": {"result": "0x1"}}
    answers[method] = {"result": "?"}
    with node_answering(**answers) as served, pytest.raises(InsufficientData, match="of the account"):
        read_context(Sender(network("hardhat"), {}, ADDRESS, [(served.url, 1)]), [], NOW)
