"""What rollups charge for the data that they write to the chain below them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from relayers.chain.answers import ChainError
from relayers.chain.contracts import Unreadable, contract_call, read_call
from relayers.chain.errors import InsufficientData
from relayers.chain.networks import L1Fee, Network
from relayers.chain.readings import Reading, block_seconds
from relayers.chain.transactions import Transaction

OP_STACK_ORACLE = "0x420000000000000000000000000000000000000F"
ARBITRUM_NODE_INTERFACE = "0x00000000000000000000000000000000000000C8"
ZERO_ADDRESS = "0x" + "00" * 20
# Enough gas for the operator fee's share of it to be a whole number of wei.
SAMPLE_GAS = 1_000_000


@dataclass(frozen=True)
class OperatorFee:
    """An OP-stack chain's operator fee: a constant, and a share for each million of gas."""

    constant: int = 0
    for_a_million: int = 0

    def of(self, gas: int) -> int:
        """Return the fee as the chain computes it, rounded down."""
        return self.constant + gas * self.for_a_million // SAMPLE_GAS


def readings(network: Network, transaction: Transaction) -> dict[str, Reading]:
    """Return what has to be read for the fees of the chain below, by name."""
    return READINGS[network.l1_fee](network, transaction)


def _op_stack(network: Network, transaction: Transaction) -> dict[str, Reading]:
    return {
        "l1_fee": Reading([contract_call(OP_STACK_ORACLE, "getL1Fee(bytes)", [transaction.unsigned])], _read_l1_fee),
        # The fee is linear in gas, so two points give it for any gas, before the gas is known.
        "operator_fee": Reading(
            [contract_call(OP_STACK_ORACLE, "getOperatorFee(uint256)", [gas]) for gas in (0, SAMPLE_GAS)],
            _read_operator_fee,
            key="operator fee",
            seconds=lambda _: block_seconds(network),
        ),
    }


def _first_value(answer: Any, types: Sequence[str], name: str) -> int:
    try:
        return int(read_call(answer, types)[0])
    except Unreadable:
        raise InsufficientData(f"The network does not tell its {name}.") from None


def _read_l1_fee(answers: list[Any]) -> int:
    return _first_value(answers[0], ["uint256"], "L1 data fee")


def _read_operator_fee(answers: list[Any]) -> OperatorFee:
    if all(isinstance(answer, ChainError) and answer.is_revert for answer in answers):
        # Before the Isthmus upgrade the oracle has no such function, and the chain no such fee.
        return OperatorFee()
    at_zero, at_sample = (_first_value(answer, ["uint256"], "operator fee") for answer in answers)
    if at_sample < at_zero:
        raise InsufficientData("The network's operator fee falls with the gas, which it cannot.")
    return OperatorFee(at_zero, at_sample - at_zero)


def _arbitrum(network: Network, transaction: Transaction) -> dict[str, Reading]:
    arguments = [transaction.to or ZERO_ADDRESS, transaction.to is None, transaction.data]
    call = contract_call(ARBITRUM_NODE_INTERFACE, "gasEstimateL1Component(address,bool,bytes)", arguments)
    return {"l1_gas": Reading([call], _read_l1_gas)}


def _read_l1_gas(answers: list[Any]) -> int:
    return _first_value(answers[0], ["uint64", "uint256", "uint256"], "L1 gas")


READINGS: dict[L1Fee, Callable[[Network, Transaction], dict[str, Reading]]] = {
    L1Fee.NONE: lambda network, transaction: {},
    L1Fee.OP_STACK: _op_stack,
    L1Fee.ARBITRUM: _arbitrum,
}
