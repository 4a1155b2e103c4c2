from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chain.amount import Amount
from chain.contracts import contract_call
from chain.errors import InsufficientData
from chain.kinds.base import Charges, FeeModel, read_uint
from chain.readings import ChainReading
from chain.transactions import Transaction

NODE_INTERFACE = "0x00000000000000000000000000000000000000C8"
ZERO_ADDRESS = "0x" + "00" * 20


class Arbitrum(FeeModel):
    """Arbitrum's stack: gas pays for L1 too, and `eth_estimateGas` contains that gas; priority fees are dropped."""

    pays_priority_fee = False
    has_l1_gas = True

    def charge_readings(self, transaction: Transaction) -> dict[str, ChainReading]:
        arguments = [transaction.to or ZERO_ADDRESS, transaction.to is None, transaction.data]
        call = contract_call(NODE_INTERFACE, "gasEstimateL1Component(address,bool,bytes)", arguments)
        return {"l1_gas": ChainReading([replace(call, is_optional=True)], read_l1_gas)}

    def charges(self, found: Mapping[str, Any], gas: Amount, l1_margin_bps: int) -> Charges:
        return Charges(l1_gas=found["l1_gas"])


def read_l1_gas(answers: list[Any]) -> int | None:
    """Return the part of the gas that pays for L1; None if it is unknown, as it is for display alone."""
    try:
        return read_uint(answers[0], "L1 gas", ("uint64", "uint256", "uint256"))
    except InsufficientData:
        return None
