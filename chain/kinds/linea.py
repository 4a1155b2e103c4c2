from collections.abc import Mapping
from typing import Any

from chain.answers import member_quantity
from chain.attempts import Call
from chain.errors import InsufficientData
from chain.fee_history import BaseFeeSource, Market
from chain.gas_estimate import GasEstimate, estimate
from chain.kinds.base import FeeModel
from chain.networks import Network
from chain.readings import ChainReading
from chain.transactions import Transaction


class Linea(FeeModel):
    """Linea: the node names gas, base fee and priority fee of a transaction at once; the priority fee pays for L1."""

    def gas_reading(self, transaction: Transaction, sender: str) -> ChainReading:
        return ChainReading([Call("linea_estimateGas", [transaction.call(sender)])], read)

    def market_readings(self, network: Network, transaction: Transaction, sender: str) -> dict[str, ChainReading]:
        return {"gas": self.gas_reading(transaction, sender)}

    def market(self, network: Network, found: Mapping[str, Any], speed: str | None) -> Market:
        market: Market = found["gas"].market
        return market

    def own_readings(self, transaction: Transaction, sender: str) -> dict[str, ChainReading]:
        return {"gas": self.gas_reading(transaction, sender)}


def read(answers: list[Any]) -> GasEstimate:
    (answer,) = answers
    found = estimate(answer, member_quantity(answer, "gasLimit"))
    base_fee, priority_fee = member_quantity(answer, "baseFeePerGas"), member_quantity(answer, "priorityFeePerGas")
    if base_fee is None or priority_fee is None:
        raise InsufficientData("The node did not say at what price the transaction would be included.")
    return GasEstimate(found.gas, Market(base_fee, BaseFeeSource.LINEA, priority_fee))
