"""The fees of the next block, from the fee history of the last blocks."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from chain.errors import InsufficientData
from chain.networks import BaseFeeRule, Network
from chain.nodes.answers import quantity
from chain.nodes.attempts import Call
from chain.nodes.head import Head
from chain.nodes.plausibility import ELASTICITY, by_eip_1559
from chain.readings import ChainReading

HISTORY_BLOCKS = 10
# The fuller the last blocks, the higher the percentile of priority fees to offer: (fullness above, percentile).
PERCENTILES = ((Fraction(9, 10), 70), (Fraction(7, 10), 60), (Fraction(5, 10), 50), (Fraction(0), 40))
UNKNOWN_FULLNESS_PERCENTILE = 50
# The percentile of each speed that a client can request.
SPEEDS = {"safeLow": 30, "average": 50, "fast": 75, "fastest": 90}
REQUESTED_PERCENTILES = sorted({*(percentile for _, percentile in PERCENTILES), *SPEEDS.values()})
CALL = Call("eth_feeHistory", [hex(HISTORY_BLOCKS), "latest", REQUESTED_PERCENTILES])

NO_HISTORY = (
    "The node did not report the fees of the last blocks. On a network without EIP-1559, set the relayer's policy "
    "eip1559_pricing to false."
)


class BaseFeeSource(StrEnum):
    """The source of the next base fee."""

    FEE_HISTORY = "eth_feeHistory"
    ETH_BASE_FEE = "eth_baseFee"
    LINEA = "linea_estimateGas"
    COMPUTED = "eip-1559"
    LAST_BLOCK = "last-block"


@dataclass(frozen=True)
class FeeHistory:
    """The fees of the last blocks."""

    # Of the next block if `has_next`, else of the last one.
    base_fee: int
    has_next: bool
    # The percentile of priority fees to offer, by the fullness of the blocks.
    percentile: int
    # The REQUESTED_PERCENTILES of each block; empty if the node does not report them.
    rewards: tuple[tuple[int, ...], ...]

    def priority_fee(self, percentile: int) -> int:
        """Return the median of a percentile over the blocks; 0 if the node does not report any."""
        column = REQUESTED_PERCENTILES.index(percentile)
        return statistics.median_high(rewards[column] for rewards in self.rewards) if self.rewards else 0


@dataclass(frozen=True)
class Market:
    """The fees of the next block, in wei."""

    base_fee: int
    base_fee_source: BaseFeeSource
    priority_fee: int


def readings(network: Network) -> dict[str, ChainReading]:
    """Return the readings for the market of a network with a base fee."""
    found = {"history": ChainReading([CALL], lambda answers: _read(answers[0], network), key="fee history")}
    if network.base_fee_rule == BaseFeeRule.ETH_BASE_FEE:
        found["base_fee"] = price_reading("eth_baseFee", "next base fee")
    return found


def price_reading(method: str, name: str) -> ChainReading:

    def read(answers: list[Any]) -> int:
        price = quantity(answers[0])
        if price is None:
            raise InsufficientData(f"The node did not report its {name}.")
        return price

    return ChainReading([Call(method)], read, key=name)


def _read(answer: Any, network: Network) -> FeeHistory:
    try:
        return read_history(answer, network.reports_fullness)
    except (KeyError, IndexError, TypeError, ValueError):
        raise InsufficientData(NO_HISTORY) from None


def read_history(answer: Any, reports_fullness: bool = True) -> FeeHistory:
    """Return a fee history, which may end with the base fee of the next block."""
    base_fees, ratios, rewards = answer["baseFeePerGas"], answer["gasUsedRatio"], answer.get("reward")
    blocks = len(ratios)
    if not blocks or len(base_fees) not in {blocks, blocks + 1}:
        raise ValueError("wrong number of base fees")
    rows = () if rewards is None else tuple(tuple(map(_amount, row)) for row in rewards)
    if rows and (len(rows) != blocks or any(len(row) != len(REQUESTED_PERCENTILES) for row in rows)):
        raise ValueError("wrong number of priority fees")
    return FeeHistory(
        base_fee=_amount(base_fees[-1]),
        has_next=len(base_fees) > blocks,
        percentile=_percentile(ratios) if reports_fullness else UNKNOWN_FULLNESS_PERCENTILE,
        rewards=rows,
    )


def _percentile(ratios: Sequence[Any]) -> int:
    fullness = sum(map(_ratio, ratios)) / len(ratios)
    return next(percentile for above, percentile in PERCENTILES if fullness > above or not above)


def market(network: Network, found: Mapping[str, Any], speed: str | None) -> Market:
    """Return the fees of the next block from the values read, for a speed or by the fullness of the last blocks."""
    history: FeeHistory = found["history"]
    base_fee, source = next_base_fee(network, history, found["head"], found.get("base_fee"))
    percentile = history.percentile if speed is None else SPEEDS[speed]
    return Market(base_fee, source, history.priority_fee(percentile))


def next_base_fee(
    network: Network, history: FeeHistory, head: Head, reported: int | None
) -> tuple[int, BaseFeeSource]:
    """Return the base fee of the next block, and its source."""
    if reported is not None:
        return reported, BaseFeeSource.ETH_BASE_FEE
    if history.has_next:
        return history.base_fee, BaseFeeSource.FEE_HISTORY
    if network.base_fee_rule == BaseFeeRule.LAST_BLOCK:
        return history.base_fee, BaseFeeSource.LAST_BLOCK
    if head.base_fee is None or head.gas_limit < ELASTICITY:
        raise InsufficientData("The node reported neither the next base fee nor the values to compute it.")
    return by_eip_1559(head.base_fee, head.gas_used, head.gas_limit), BaseFeeSource.COMPUTED


def _amount(text: Any) -> int:
    amount = quantity(text)
    if amount is None:
        raise ValueError("not a quantity")
    return amount


def _ratio(number: Any) -> Fraction:
    # No strings: one could be a number of a billion digits.
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError("not a number")
    return min(max(Fraction(str(number)), Fraction(0)), Fraction(1))
