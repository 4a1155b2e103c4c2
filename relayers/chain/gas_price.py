"""The price of gas: the base fee of the next block and the priority fee, or one price from the node; and of blobs."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from django.conf import settings

from relayer_service.amounts import with_bps
from relayers.chain.answers import quantity
from relayers.chain.attempts import Call
from relayers.chain.errors import InsufficientData
from relayers.chain.networks import Network
from relayers.chain.readings import Reading, block_seconds

HISTORY_BLOCKS = 10
# The fuller the last blocks, the more has to be offered: above this fullness, this percentile of the priority fees.
PERCENTILES = ((Fraction(9, 10), 70), (Fraction(7, 10), 60), (Fraction(5, 10), 50), (Fraction(0), 40))
ASKED_PERCENTILES = sorted(percentile for _, percentile in PERCENTILES)

DEFAULT_PRIORITY_FEE_FLOOR = 1_000_000
DEFAULT_BASE_FEE_MARGIN_BPS = 2_000
DEFAULT_GAS_BUFFER_BPS = 1_000


@dataclass(frozen=True)
class FeeRules:
    """How fees are quoted on a network: by the settings, else by the network's own values, else by the defaults."""

    priority_fee_floor: int
    base_fee_margin_bps: int
    gas_buffer_bps: int

    @classmethod
    def of(cls, network: Network) -> FeeRules:
        return cls(
            _first(settings.FEE_TIP_FLOOR_WEI, network.tip_floor, DEFAULT_PRIORITY_FEE_FLOOR),
            _first(settings.FEE_BASE_FEE_MARGIN_BPS, network.base_fee_margin_bps, DEFAULT_BASE_FEE_MARGIN_BPS),
            _first(settings.FEE_GAS_BUFFER_BPS, network.gas_buffer_bps, DEFAULT_GAS_BUFFER_BPS),
        )


def _first(*choices: int | None) -> int:
    return next(choice for choice in choices if choice is not None)


@dataclass(frozen=True)
class FeeHistory:
    """The fees of the next block, from those of the last blocks, in wei."""

    base_fee: int
    priority_fee: int


@dataclass(frozen=True)
class GasPrice:
    """The price of a unit of gas, in wei, and where it comes from."""

    price: Fraction
    is_capped: bool
    # None where the node was asked for a single price.
    base_fee: int | None = None
    priority_fee: int | None = None


def history_reading(network: Network) -> Reading:
    call = Call("eth_feeHistory", [hex(HISTORY_BLOCKS), "latest", ASKED_PERCENTILES])
    return Reading([call], _read_history, key="fee history", seconds=lambda _: block_seconds(network))


def _read_history(answers: list[Any]) -> FeeHistory:
    (answer,) = answers
    try:
        return read_history(answer)
    except (KeyError, IndexError, TypeError, ValueError):
        raise InsufficientData(
            "The node does not tell the fees of the last blocks. On a network without EIP-1559, the relayer needs the "
            "policy eip1559_pricing: false."
        ) from None


def read_history(answer: Any) -> FeeHistory:
    """Return the base fee of the next block, and the priority fee to offer by how full the last blocks were."""
    base_fees = [_amount(fee) for fee in answer["baseFeePerGas"]]
    ratios = [_ratio(ratio) for ratio in answer["gasUsedRatio"]]
    # The base fee of the next block comes after those of the blocks themselves.
    if not ratios or len(base_fees) != len(ratios) + 1 or len(answer["reward"]) != len(ratios):
        raise ValueError("not as many fees as blocks")
    fullness = sum(ratios) / len(ratios)
    percentile = next(percentile for above, percentile in PERCENTILES if fullness > above or not above)
    column = ASKED_PERCENTILES.index(percentile)
    priority_fee = statistics.median_high(_amount(rewards[column]) for rewards in answer["reward"])
    return FeeHistory(base_fees[-1], priority_fee)


def gas_price_reading(network: Network) -> Reading:
    return _price_reading(network, "eth_gasPrice", "gas price")


def blob_price_reading(network: Network) -> Reading:
    return _price_reading(network, "eth_blobBaseFee", "blob base fee")


def _price_reading(network: Network, method: str, name: str) -> Reading:
    def read(answers: list[Any]) -> int:
        price = quantity(answers[0])
        if price is None:
            raise InsufficientData(f"The node does not tell its {name}.")
        return price

    return Reading([Call(method)], read, key=name, seconds=lambda _: block_seconds(network))


def dynamic_price(history: FeeHistory, rules: FeeRules, cap: int | None) -> GasPrice:
    """Return the price by EIP-1559: the next base fee with its margin, and a priority fee not below the floor."""
    priority_fee = max(history.priority_fee, rules.priority_fee_floor)
    price = with_bps(history.base_fee, rules.base_fee_margin_bps) + priority_fee
    return GasPrice(*_capped(price, cap), history.base_fee, priority_fee)


def single_price(price: int, cap: int | None) -> GasPrice:
    return GasPrice(*_capped(Fraction(price), cap))


def _capped(price: Fraction, cap: int | None) -> tuple[Fraction, bool]:
    """Return the price, at most the cap, and whether the cap lowered it."""
    return (Fraction(cap), True) if cap is not None and price > cap else (price, False)


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
    return Fraction(str(number))
