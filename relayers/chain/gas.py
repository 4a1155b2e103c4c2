"""Gas: how much a transaction needs, and what it costs."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from django.conf import settings

from relayer_service.amounts import with_bps
from relayers.chain import reverts
from relayers.chain.answers import ChainError, quantity
from relayers.chain.attempts import Call
from relayers.chain.networks import Network
from relayers.chain.readings import Reading
from relayers.chain.transactions import Transaction
from rpc import errors

HISTORY_BLOCKS = 10
# The fuller the last blocks, the more one has to offer: how full they are at least, and the percentile of the tips.
PERCENTILES = ((Fraction(9, 10), 70), (Fraction(7, 10), 60), (Fraction(5, 10), 50), (Fraction(0), 40))
ASKED_PERCENTILES = sorted(percentile for _, percentile in PERCENTILES)
# A block is a good time to keep what it says of prices, but neither each quarter of a second nor for long.
SHORTEST_KEPT, LONGEST_KEPT = 1.0, 15.0

DEFAULT_TIP_FLOOR = 1_000_000
DEFAULT_BASE_FEE_MARGIN_BPS = 2_000
DEFAULT_GAS_BUFFER_BPS = 1_000


@dataclass(frozen=True)
class FeeRules:
    """How fees are quoted on a network: what is set for all, else what the network has, else the defaults."""

    tip_floor: int
    base_fee_margin_bps: int
    gas_buffer_bps: int

    @classmethod
    def of(cls, network: Network) -> FeeRules:
        return cls(
            _first(settings.FEE_TIP_FLOOR_WEI, network.tip_floor, DEFAULT_TIP_FLOOR),
            _first(settings.FEE_BASE_FEE_MARGIN_BPS, network.base_fee_margin_bps, DEFAULT_BASE_FEE_MARGIN_BPS),
            _first(settings.FEE_GAS_BUFFER_BPS, network.gas_buffer_bps, DEFAULT_GAS_BUFFER_BPS),
        )


def _first(*choices: int | None) -> int:
    return next(choice for choice in choices if choice is not None)


@dataclass(frozen=True)
class FeeHistory:
    """What the last blocks tell of the next one."""

    base_fee: int
    tip: int


@dataclass(frozen=True)
class GasPrice:
    """The price of a unit of gas, in wei, and where it comes from."""

    price: Fraction
    is_capped: bool
    # None where the node was asked for one price.
    base_fee: int | None = None
    tip: int | None = None


def kept_seconds(network: Network) -> float:
    """Say how long what a block tells is kept: about as long as the block is the last one."""
    return min(max(network.block_seconds, SHORTEST_KEPT), LONGEST_KEPT)


def estimate_reading(transaction: Transaction, sender: str) -> Reading:
    return Reading([Call("eth_estimateGas", [transaction.call(sender)])], _read_estimate)


def _read_estimate(answers: list[Any]) -> int:
    (answer,) = answers
    if isinstance(answer, ChainError):
        raise reverts.in_words(answer)
    gas = quantity(answer)
    if not gas:
        raise errors.InsufficientData("The node did not say how much gas the transaction needs.")
    return gas


def history_reading(network: Network) -> Reading:
    call = Call("eth_feeHistory", [hex(HISTORY_BLOCKS), "latest", ASKED_PERCENTILES])
    return Reading([call], _read_history, key="fee history", seconds=lambda _: kept_seconds(network))


def _read_history(answers: list[Any]) -> FeeHistory:
    (answer,) = answers
    try:
        return read_history(answer)
    except (KeyError, IndexError, TypeError, ValueError):
        raise errors.InsufficientData(
            "The node does not tell the fees of the last blocks. On a network without EIP-1559, the relayer needs the "
            "policy eip1559_pricing: false."
        ) from None


def read_history(answer: Any) -> FeeHistory:
    """Read the base fee of the next block, and the tip to offer: by how full the last blocks were."""
    base_fees = [_amount(fee) for fee in answer["baseFeePerGas"]]
    ratios = [_ratio(ratio) for ratio in answer["gasUsedRatio"]]
    # The base fee of the next block comes after those of the blocks themselves.
    if not ratios or len(base_fees) != len(ratios) + 1 or len(answer["reward"]) != len(ratios):
        raise ValueError("not as many fees as blocks")
    fullness = sum(ratios) / len(ratios)
    percentile = next(percentile for least, percentile in PERCENTILES if fullness > least or not least)
    column = ASKED_PERCENTILES.index(percentile)
    tip = statistics.median_high(_amount(rewards[column]) for rewards in answer["reward"])
    return FeeHistory(base_fees[-1], tip)


def gas_price_reading(network: Network) -> Reading:
    return _price_reading(network, "eth_gasPrice", "gas price")


def blob_price_reading(network: Network) -> Reading:
    return _price_reading(network, "eth_blobBaseFee", "blob base fee")


def _price_reading(network: Network, method: str, name: str) -> Reading:
    def read(answers: list[Any]) -> int:
        price = quantity(answers[0])
        if price is None:
            raise errors.InsufficientData(f"The node does not tell its {name}.")
        return price

    return Reading([Call(method)], read, key=name, seconds=lambda _: kept_seconds(network))


def dynamic_price(history: FeeHistory, rules: FeeRules, cap: int | None) -> GasPrice:
    """Give the price by EIP-1559: the next base fee with its margin, and a tip that is not below the floor."""
    tip = max(history.tip, rules.tip_floor)
    price = with_bps(history.base_fee, rules.base_fee_margin_bps) + tip
    return GasPrice(*_capped(price, cap), history.base_fee, tip)


def single_price(price: int, cap: int | None) -> GasPrice:
    return GasPrice(*_capped(Fraction(price), cap))


def _capped(price: Fraction, cap: int | None) -> tuple[Fraction, bool]:
    """Give the price, no higher than the cap, and whether that made it lower."""
    return (Fraction(cap), True) if cap is not None and price > cap else (price, False)


def _amount(text: Any) -> int:
    amount = quantity(text)
    if amount is None:
        raise ValueError("not a quantity")
    return amount


def _ratio(number: Any) -> Fraction:
    # A part of a block's gas, not of money: the node gives it as a decimal number, which JSON makes a float. A text of
    # the node's own can be a number of a billion digits.
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError("not a number")
    return Fraction(str(number))
