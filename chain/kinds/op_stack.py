import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chain.amount import Amount
from chain.answers import ChainError
from chain.contracts import contract_call
from chain.errors import InsufficientData
from chain.kinds.base import Charges, FeeModel, read_uint, uint_reading, with_margin
from chain.readings import ChainReading
from chain.transactions import Transaction, encode_with_placeholders

ORACLE = "0x420000000000000000000000000000000000000F"
# Enough gas for the operator fee's share of it to be a whole number of wei.
SAMPLE_GAS = 1_000_000


@dataclass(frozen=True)
class OperatorFee:
    """An operator fee: a constant, and a share for each million of gas."""

    constant: int = 0
    for_a_million: int = 0

    def for_gas(self, gas: int) -> int:
        """Return the fee as the chain computes it, rounded down."""
        return self.constant + gas * self.for_a_million // SAMPLE_GAS


class OpStack(FeeModel):
    """Optimism's stack: an L1 data fee by a transaction's size, and since Isthmus an operator fee by its gas."""

    def charge_readings(self, transaction: Transaction) -> dict[str, ChainReading]:
        # The oracle wants the encoding without a signature, whose size it adds itself.
        l1_fee = contract_call(ORACLE, "getL1Fee(bytes)", [encode_with_placeholders(transaction)])
        # Linear in gas, by Isthmus and by Jovian: two points give the fee for any gas, before the gas is known.
        operator_fees = [contract_call(ORACLE, "getOperatorFee(uint256)", [gas]) for gas in (0, SAMPLE_GAS)]
        return {
            "l1_fee": uint_reading(l1_fee, "L1 data fee"),
            "operator_fee": ChainReading(operator_fees, read_operator_fee, key="operator fee"),
        }

    def charges(self, found: Mapping[str, Any], gas: Amount, l1_margin_bps: int) -> Charges:
        l1_fee, operator_fee = found["l1_fee"], found["operator_fee"]
        return Charges(
            with_margin(l1_fee, l1_margin_bps),
            Amount(operator_fee.for_gas(math.ceil(gas.expected)), operator_fee.for_gas(math.ceil(gas.maximum))),
        )


def read_operator_fee(answers: list[Any]) -> OperatorFee:
    if all(isinstance(answer, ChainError) and answer.is_revert for answer in answers):
        # Before the Isthmus upgrade the oracle has no such function, and the chain no such fee.
        return OperatorFee()
    at_zero, at_sample = (read_uint(answer, "operator fee") for answer in answers)
    if at_sample < at_zero:
        raise InsufficientData("The network's operator fee falls with the gas, which it cannot.")
    return OperatorFee(at_zero, at_sample - at_zero)
