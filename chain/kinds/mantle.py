from collections.abc import Mapping
from typing import Any

from chain.amount import Amount
from chain.contracts import contract_call
from chain.kinds.base import Charges, uint_reading
from chain.kinds.op_stack import ORACLE, OpStack
from chain.readings import ChainReading
from chain.transactions import Transaction


class Mantle(OpStack):
    """Mantle since Arsia: the oracle's L1 data fee is in ETH, and the network takes MNT, at the oracle's own ratio."""

    def charge_readings(self, transaction: Transaction) -> dict[str, ChainReading]:
        ratio = uint_reading(contract_call(ORACLE, "tokenRatio()"), "ratio of MNT to ETH", key="token ratio")
        return {**super().charge_readings(transaction), "token_ratio": ratio}

    def charges(self, found: Mapping[str, Any], gas: Amount, l1_margin_bps: int) -> Charges:
        return super().charges({**found, "l1_fee": found["l1_fee"] * found["token_ratio"]}, gas, l1_margin_bps)
