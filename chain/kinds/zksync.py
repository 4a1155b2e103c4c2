from typing import Any

from chain.answers import member_quantity
from chain.attempts import Call
from chain.gas_estimate import GasEstimate, estimate
from chain.kinds.base import FeeModel
from chain.networks import Network
from chain.readings import ChainReading
from chain.transactions import Transaction


class ZkSync(FeeModel):
    """ZKsync's EraVM: gas pays for the data on L1 too, by rules of its own; priority fees are dropped."""

    pays_priority_fee = False
    has_l1_gas = True
    pads_estimates = True

    def gas_reading(self, transaction: Transaction, sender: str) -> ChainReading:
        return ChainReading([Call("zks_estimateFee", [transaction.call(sender)])], read)

    def minimum_gas(self, transaction: Transaction, network: Network) -> int:
        # Its gas is not Ethereum's.
        return 0

    def own_readings(self, transaction: Transaction, sender: str) -> dict[str, ChainReading]:
        return {"gas": self.gas_reading(transaction, sender)}


def read(answers: list[Any]) -> GasEstimate:
    (answer,) = answers
    return estimate(answer, member_quantity(answer, "gas_limit"))
