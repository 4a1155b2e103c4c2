"""Reading several values where one of them fails: the others are read, and the failure is a value."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chain.errors import ExecutionReverted, NodesUnreachable
from chain.fees.fee_history import FeeHistory, readings
from chain.fees.gas_estimate import GasEstimate
from chain.fees.network_fees import FeeModel
from chain.networks import networks
from chain.nodes.answers import quantity
from chain.nodes.attempts import Call
from chain.readings import ChainReading, gather, gather_each
from chain.transactions import decode
from tests.chain.answering_node import unsigned
from tests.chain.encoded import SENDER
from tests.chain.fee_node import FeeNode, serve

NETWORK = networks()["hardhat"]
INTERNAL = {"code": -32603, "message": "internal error"}
REVERTED = {"code": 3, "message": "execution reverted", "data": "0x1234"}


@pytest.fixture
def node() -> Iterator[FeeNode]:
    with serve(FeeNode()) as served:
        yield served


def wanted() -> dict[str, ChainReading]:
    gas = FeeModel().gas_reading(decode(unsigned()), SENDER)
    number = ChainReading([Call("eth_gasPrice")], lambda answers: quantity(answers[0]))
    return {**readings(NETWORK), "gas": gas, "price": number}


def test_a_revert_is_the_value_of_its_reading(node: FeeNode) -> None:
    node.errors["eth_estimateGas"] = REVERTED
    found = gather_each([(node.url, 100)], NETWORK, wanted())
    fault = found["gas"]
    assert isinstance(fault, ExecutionReverted)
    assert (str(fault), fault.data) == ("The transaction would revert: no reason given.", b"\x12\x34")
    assert (type(found["history"]), found["price"]) == (FeeHistory, 1_760_000_000)
    assert len(node.asked) == 1
    with pytest.raises(ExecutionReverted):
        gather([(node.url, 100)], NETWORK, wanted())


def test_a_call_that_every_node_fails_at_does_not_hide_the_others(node: FeeNode) -> None:
    node.errors["eth_estimateGas"] = INTERNAL
    found = gather_each([(node.url, 100)], NETWORK, wanted())
    assert isinstance(found["gas"], NodesUnreachable)
    assert (type(found["history"]), found["price"]) == (FeeHistory, 1_760_000_000)


def test_another_node_is_asked_before_a_call_is_given_up(node: FeeNode) -> None:
    with serve(FeeNode(errors={"eth_estimateGas": INTERNAL})) as failing:
        found = gather_each([(failing.url, 10**9), (node.url, 1)], NETWORK, wanted())
    assert found["gas"] == GasEstimate(21_000)


def test_nodes_that_fail_at_what_is_shared_are_unreachable(node: FeeNode) -> None:
    node.errors["eth_getBlockByNumber"] = INTERNAL
    with pytest.raises(NodesUnreachable):
        gather_each([(node.url, 100)], NETWORK, wanted())
