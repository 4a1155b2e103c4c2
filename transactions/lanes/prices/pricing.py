"""Prices of attempts: the first one, the next one that replaces it, and the ceilings of both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from chain.networks import BaseFeeRule, Network
from chain.transactions import Prices
from chain.units import gwei
from transactions.lanes.prices.market import BLOCK_RISE, MarketPrice
from transactions.models import Attempt, Transaction
from transactions.records.payloads import attempt_prices, requested_prices, uses_gas_price

# Geth replaces at a tenth more, other clients at more than that; an eighth suffices everywhere.
BUMP = BLOCK_RISE


class PriceTooHigh(Exception):
    """The market, or the price that a client set, does not allow sending now; the message says why."""


@dataclass(frozen=True)
class Ceiling:
    """A maximum price of a unit of gas, in wei; the name is for metrics, the words for people."""

    name: str
    price: int
    words: str


def price_text(prices: Attempt | Transaction) -> str:
    """Return the price of gas that was signed or requested; "-" if it has none."""
    if prices.gas_price_text:
        return gwei(int(prices.gas_price_text))
    if not prices.max_fee_text:
        return "-"
    tip = f", priority {gwei(int(prices.max_priority_fee_text))}" if prices.max_priority_fee_text else ""
    return f"at most {gwei(int(prices.max_fee_text))}{tip}"


def maximum(prices: Prices) -> int:
    """Return the maximum price of a unit of gas."""
    return prices.limit or 0


def bumped(price: int) -> int:
    """Return the minimum price that replaces another one; also 0, which a share would leave as it is."""
    return max(math.ceil(price * BUMP), price + 1)


def policy_ceiling(network: Network, policies: Mapping[str, Any], *, is_noop: bool = False) -> Ceiling:
    """Return the relayer's cap, or else the maximum of the network. No-ops may exceed it by two bumps.

    So a no-op can replace an attempt at the cap, and be replaced once itself.
    """
    cap = policies.get("gas_price_cap")
    if cap is None:
        name, price, words = "network", network.max_gas_price, f"the maximum on {network.name}"
    else:
        name, price, words = "gas_price_cap", cap, "the relayer's gas_price_cap"
    words = f"{words} of {gwei(price)}"
    return Ceiling(name, bumped(bumped(price)) if is_noop else price, words)


def within(prices: Prices, ceiling: int) -> Prices:
    """Return prices of at most the ceiling."""
    if prices.gas_price is not None:
        return Prices(gas_price=min(prices.gas_price, ceiling))
    max_fee = min(prices.max_fee or 0, ceiling)
    return Prices(max_fee=max_fee, max_priority_fee=min(prices.max_priority_fee or 0, max_fee))


def at(prices: Prices, limit: int) -> Prices:
    """Return prices with another maximum."""
    if prices.gas_price is not None:
        return Prices(gas_price=limit)
    return Prices(max_fee=limit, max_priority_fee=min(prices.max_priority_fee or 0, limit))


def first_price(network: Network, policies: Mapping[str, Any], row: Transaction, market: MarketPrice) -> Prices:
    """Return the price of the first attempt; raise `PriceTooHigh` if none is allowed that a block would include."""
    ceiling = policy_ceiling(network, policies)
    if row.pricing != Transaction.Pricing.SPEED:
        return _requested_price(network, policies, row, market)
    if ceiling.price < market.lowest:
        raise PriceTooHigh(f"The market price of {gwei(market.lowest)} is above {ceiling.words}.")
    return within(market.offer(is_legacy=uses_gas_price(network, policies)), ceiling.price)


def _requested_price(network: Network, policies: Mapping[str, Any], row: Transaction, market: MarketPrice) -> Prices:
    """Return exactly the price that the client set: it is neither lowered nor raised."""
    prices, cap = requested_prices(row), policies.get("gas_price_cap")
    limit = maximum(prices)
    if cap is not None and limit > cap:
        # The cap was lowered after the transaction was accepted.
        raise PriceTooHigh(f"Its price of {gwei(limit)} is above the relayer's gas_price_cap of {gwei(cap)}.")
    if limit < market.base_fee:
        raise PriceTooHigh(f"Its price of {gwei(limit)} is below the next base fee of {gwei(market.base_fee)}.")
    return explicit_price(network, row)


def explicit_price(network: Network, row: Transaction) -> Prices:
    """Return the price that the client set, in the fields that the network has."""
    prices = requested_prices(row)
    return Prices(gas_price=maximum(prices)) if network.base_fee_rule == BaseFeeRule.NONE else prices


def highest(attempts: Iterable[Attempt]) -> Prices | None:
    """Return the highest price of attempts, each of which may be in a node's pool, in the fields of the newest.

    None if there are none, or if they were found on the chain and have no price here.
    """
    known = [attempt_prices(each) for each in attempts if each.gas_price_text or each.max_fee_text]
    if not known:
        return None
    limit = max(maximum(each) for each in known)
    if known[-1].gas_price is not None:
        return Prices(gas_price=limit)
    # The whole price of a legacy attempt counts as its tip, too.
    tip = max((each.max_priority_fee if each.gas_price is None else each.gas_price) or 0 for each in known)
    return Prices(max_fee=limit, max_priority_fee=tip)


def replacement(old: Prices, minimum: int | None = None) -> Prices:
    """Return the minimum price that replaces another one: more in each field, and what a node named."""
    if old.gas_price is not None:
        return Prices(gas_price=max(bumped(old.gas_price), minimum or 0))
    # Nodes name a minimum of either field: one that the maximum fee exceeds is that of the tip.
    max_fee = max(bumped(old.max_fee or 0), minimum or 0)
    tip = max(bumped(old.max_priority_fee or 0), (minimum or 0) if (minimum or 0) < max_fee else 0)
    return Prices(max_fee=max_fee, max_priority_fee=min(tip, max_fee))


def highest_of(one: Prices, other: Prices) -> Prices:
    """Return the higher price in each field of two prices with the same fields."""
    if one.gas_price is not None:
        return Prices(gas_price=max(one.gas_price, maximum(other)))
    return Prices(
        max_fee=max(one.max_fee or 0, maximum(other)),
        max_priority_fee=max(one.max_priority_fee or 0, other.max_priority_fee or 0),
    )


def market_ceiling(market: MarketPrice, last: int) -> Ceiling:
    """Return the multiple of the market that no bump exceeds, but at least two bumps over the last attempt.

    After a fall of the market, an attempt can still be replaced.
    """
    multiple = settings.FEE_CEILING_MULTIPLE
    words = f"{multiple} times the market price of {gwei(market.current)}"
    return Ceiling("market", max(multiple * market.current, bumped(bumped(last))), words)


def cost_after(attempt: Attempt, prices: Prices) -> int:
    """Return the maximum that an attempt costs at another price, with its value and charges for L1."""
    difference = maximum(prices) - maximum(attempt_prices(attempt))
    return int(attempt.max_cost_text) + attempt.gas_limit * difference


def named_minimum(attempts: Sequence[Attempt]) -> int | None:
    """Return the minimum price that a node named when it refused the newest attempt."""
    text = attempts[-1].minimum_price_text if attempts else ""
    return int(text) if text else None
