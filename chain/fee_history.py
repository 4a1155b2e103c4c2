"""The fees of the next block, from those of the last blocks as nodes report them."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from chain.answers import quantity
from chain.attempts import Call
from chain.errors import InsufficientData
from chain.head import Head
from chain.networks import BaseFeeRule, Network
from chain.readings import ChainReading

HISTORY_BLOCKS = 10
# The fuller the last blocks, the more has to be offered: above this fullness, this percentile of the priority fees.
PERCENTILES = ((Fraction(9, 10), 70), (Fraction(7, 10), 60), (Fraction(5, 10), 50), (Fraction(0), 40))
# Where the network does not say how full its blocks are.
UNKNOWN_FULLNESS_PERCENTILE = 50
# How fast a caller wants to be included, as a percentile.
SPEEDS = {"safeLow": 30, "average": 50, "fast": 75, "fastest": 90}
ASKED_PERCENTILES = sorted({*(percentile for _, percentile in PERCENTILES), *SPEEDS.values()})
CALL = Call("eth_feeHistory", [hex(HISTORY_BLOCKS), "latest", ASKED_PERCENTILES])
# EIP-1559: the target is half of the limit, and the base fee moves by an eighth at most.
ELASTICITY = 2
MAX_CHANGE_DENOMINATOR = 8

NO_HISTORY = (
    "The node does not tell the fees of the last blocks. On a network without EIP-1559, the relayer needs the "
    "policy eip1559_pricing: false."
)


class BaseFeeSource(StrEnum):
    """Where the next base fee comes from."""

    FEE_HISTORY = "eth_feeHistory"
    ASKED = "eth_baseFee"
    LINEA = "linea_estimateGas"
    COMPUTED = "eip-1559"
    LAST_BLOCK = "last-block"


@dataclass(frozen=True)
class FeeHistory:
    """What a node says of the last blocks."""

    # Of the last block, or of the next one.
    base_fee: int
    has_next: bool
    # The percentile of priority fees to offer, by how full the blocks were.
    percentile: int
    # For each block those of ASKED_PERCENTILES; none where the node does not report them.
    rewards: tuple[tuple[int, ...], ...]

    def priority_fee(self, percentile: int) -> int:
        """Return the median of a percentile over the blocks; 0 where the node does not report any."""
        column = ASKED_PERCENTILES.index(percentile)
        return statistics.median_high(rewards[column] for rewards in self.rewards) if self.rewards else 0


@dataclass(frozen=True)
class Market:
    """The fees of the next block, in wei, and where its base fee comes from."""

    base_fee: int
    base_fee_source: BaseFeeSource
    priority_fee: int


def readings(network: Network) -> dict[str, ChainReading]:
    """Return what has to be read for the market on a network with a base fee."""
    found = {"history": ChainReading([CALL], lambda answers: _read(answers[0], network), key="fee history")}
    if network.base_fee_rule == BaseFeeRule.ASKED:
        found["base_fee"] = price_reading("eth_baseFee", "next base fee")
    return found


def price_reading(method: str, name: str) -> ChainReading:
    """Return the reading of a single price that the node has a method for."""

    def read(answers: list[Any]) -> int:
        price = quantity(answers[0])
        if price is None:
            raise InsufficientData(f"The node does not tell its {name}.")
        return price

    return ChainReading([Call(method)], read, key=name)


def _read(answer: Any, network: Network) -> FeeHistory:
    try:
        return read_history(answer, network.reports_fullness)
    except (KeyError, IndexError, TypeError, ValueError):
        raise InsufficientData(NO_HISTORY) from None


def read_history(answer: Any, reports_fullness: bool = True) -> FeeHistory:
    """Return a node's fee history, with the base fee of the next block at its end or without it."""
    base_fees, ratios, rewards = answer["baseFeePerGas"], answer["gasUsedRatio"], answer.get("reward")
    blocks = len(ratios)
    if not blocks or len(base_fees) not in {blocks, blocks + 1}:
        raise ValueError("not as many fees as blocks")
    rows = () if rewards is None else tuple(tuple(map(_amount, row)) for row in rewards)
    if rows and (len(rows) != blocks or any(len(row) != len(ASKED_PERCENTILES) for row in rows)):
        raise ValueError("not as many priority fees as blocks")
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
    """Return the fees of the next block from what was read, for a speed or by how full the last blocks were."""
    history: FeeHistory = found["history"]
    base_fee, source = next_base_fee(network, history, found["head"], found.get("base_fee"))
    percentile = history.percentile if speed is None else SPEEDS[speed]
    return Market(base_fee, source, history.priority_fee(percentile))


def next_base_fee(network: Network, history: FeeHistory, head: Head, asked: int | None) -> tuple[int, BaseFeeSource]:
    """Return the base fee of the next block, and where it comes from."""
    if asked is not None:
        return asked, BaseFeeSource.ASKED
    if history.has_next:
        return history.base_fee, BaseFeeSource.FEE_HISTORY
    if network.base_fee_rule == BaseFeeRule.LAST_BLOCK:
        return history.base_fee, BaseFeeSource.LAST_BLOCK
    if head.base_fee is None or head.gas_limit < ELASTICITY:
        raise InsufficientData("The node does not tell the next base fee, nor what it could be computed from.")
    return by_eip_1559(head.base_fee, head.gas_used, head.gas_limit), BaseFeeSource.COMPUTED


def by_eip_1559(base_fee: int, gas_used: int, gas_limit: int) -> int:
    """Return the base fee that follows a block, as EIP-1559 computes it."""
    target = gas_limit // ELASTICITY
    change = base_fee * abs(gas_used - target) // target // MAX_CHANGE_DENOMINATOR
    if gas_used > target:
        return base_fee + max(change, 1)
    return base_fee - change


def _amount(text: Any) -> int:
    amount = quantity(text)
    if amount is None:
        raise ValueError("not a quantity")
    return amount


def _ratio(number: Any) -> Fraction:
    # A share of a block's gas, no money: a float is what JSON makes of the node's number. Text is refused, as it could
    # be a number of a billion digits.
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError("not a number")
    return min(max(Fraction(str(number)), Fraction(0)), Fraction(1))
