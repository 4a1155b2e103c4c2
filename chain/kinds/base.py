from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from chain import fee_history, gas_estimate, limits
from chain.amount import NOTHING, Amount
from chain.attempts import Call
from chain.contracts import Unreadable, read_call
from chain.errors import InsufficientData
from chain.fee_history import Market
from chain.networks import Network
from chain.readings import ChainReading
from chain.transactions import Transaction
from relayer_service.amounts import with_bps


@dataclass(frozen=True)
class Charges:
    """What a network charges beside gas, in the native coin's smallest unit."""

    l1_fee: Amount = NOTHING
    operator_fee: Amount = NOTHING
    # The part of the gas that pays for L1; None where there is none, or it is unknown.
    l1_gas: int | None = None


class FeeModel:
    """How a network charges for a transaction: this one for gas at the market's price, and for nothing else."""

    pays_priority_fee: ClassVar[bool] = True
    # Whether gas pays for L1 too, so that even a transfer needs more of it when L1 gets dearer.
    has_l1_gas: ClassVar[bool] = False
    # Whether nodes estimate more than is needed, so that a limit below the estimate may do.
    pads_estimates: ClassVar[bool] = False

    def gas_reading(self, transaction: Transaction, sender: str) -> ChainReading:
        """Return the reading of the gas that a transaction needs."""
        return gas_estimate.reading(transaction, sender)

    def minimum_gas(self, transaction: Transaction, network: Network) -> int:
        """Return the gas limit below which the network refuses a transaction."""
        return limits.minimum_gas(transaction, network)

    def market_readings(self, network: Network, transaction: Transaction, sender: str) -> dict[str, ChainReading]:
        """Return what has to be read for the market."""
        return fee_history.readings(network)

    def market(self, network: Network, found: Mapping[str, Any], speed: str | None) -> Market:
        return fee_history.market(network, found, speed)

    def charge_readings(self, transaction: Transaction) -> dict[str, ChainReading]:
        """Return what has to be read for the charges beside gas."""
        return {}

    def own_readings(self, transaction: Transaction, sender: str) -> dict[str, ChainReading]:
        """Return what is read on networks of this kind alone."""
        return self.charge_readings(transaction)

    def charges(self, found: Mapping[str, Any], gas: Amount, l1_margin_bps: int) -> Charges:
        """Return the charges beside gas, for this gas."""
        return Charges()


def uint_reading(call: Call, name: str, key: Hashable = None) -> ChainReading:
    """Return the reading of one number that a contract of the network returns."""
    return ChainReading([call], lambda answers: read_uint(answers[0], name), key)


def with_margin(l1_fee: int, margin_bps: int) -> Amount:
    """Return an L1 fee whose maximum is with a margin, as the price of L1 moves."""
    return Amount(l1_fee, with_bps(l1_fee, margin_bps))


def read_uint(answer: Any, name: str, types: tuple[str, ...] = ("uint256",)) -> int:
    """Return the first value that a contract of the network returned."""
    try:
        return int(read_call(answer, types)[0])
    except Unreadable:
        raise InsufficientData(f"The network does not tell its {name}.") from None
