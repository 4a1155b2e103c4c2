"""Prices: the first one of a transaction, and the next one that replaces it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.fees.fee_history import FeeHistory
from chain.nodes.plausibility import plausible_base_fee
from chain.transactions import Prices
from tests.transactions.lane_values import (
    BASE_FEE,
    GWEI,
    TIP,
    attempt,
    head,
    history,
    legacy_attempt,
    market,
    network,
    sender_of,
)
from transactions.lanes.prices import pricing
from transactions.lanes.prices.market import MarketPrice
from transactions.lanes.prices.pricing import PriceTooHigh
from transactions.models import Transaction

Speed = Transaction.Speed
PRICE = st.integers(0, 10**15)


def first(
    speed: str = "fast", name: str = "mainnet", policies: dict[str, Any] | None = None, **changes: Any
) -> Prices:
    """Return the first price, with changes of what was read."""
    sender = sender_of(network(name), policies)
    price = market(sender, **changes).price(speed)
    return pricing.first_price(sender.network, sender.policies, Transaction(speed=speed), price)


@pytest.mark.parametrize(
    ("speed", "max_fee"),
    [
        # The headroom of 1.125^3, ^4, ^7, and 3 instead of 1.125^16.
        (Speed.FASTEST, 14_238_281_250),
        (Speed.FAST, 16_018_066_407),
        (Speed.AVERAGE, 22_806_973_458),
        (Speed.SAFE_LOW, 30_000_000_000),
    ],
)
def test_the_headroom_covers_the_blocks_that_a_speed_may_wait(speed: str, max_fee: int) -> None:
    assert first(speed) == Prices(max_fee=max_fee + TIP, max_priority_fee=TIP)


@pytest.mark.parametrize(("speed", "tip"), [("safeLow", 30), ("average", 50), ("fast", 75), ("fastest", 90)])
def test_the_tip_is_the_median_of_the_speeds_percentile(speed: str, tip: int) -> None:
    rewards = ((1,) * 7, tuple(GWEI + percentile for percentile in (30, 40, 50, 60, 70, 75, 90)), (10**12,) * 7)
    price = market(history=FeeHistory(BASE_FEE, True, 50, rewards)).price(speed)
    assert (price.base_fee, price.tip) == (BASE_FEE, GWEI + tip)


@pytest.mark.parametrize(("speed", "price"), [("safeLow", 30), ("average", 31.5), ("fast", 33), ("fastest", 37.5)])
def test_a_single_price_is_the_nodes_with_little_headroom(speed: str, price: float) -> None:
    quoted: dict[str, Any] = {"gas_price": 30 * GWEI}
    expected = Prices(gas_price=int(price * GWEI))
    assert first(speed, policies={"eip1559_pricing": False}, **quoted) == expected
    assert first(speed, "metis", **quoted) == expected
    # It covers the base fee and the minimum tip.
    lowest = first(speed, policies={"eip1559_pricing": False}, gas_price=1)
    assert lowest == Prices(gas_price=BASE_FEE + 10_000_000)


@pytest.mark.parametrize(
    ("name", "reported", "gas_used", "base_fee"),
    [
        ("mainnet", 112_500, 15_000_000, 112_500),
        ("mainnet", 112_501, 15_000_000, 100_000),
        ("mainnet", 87_500, 15_000_000, 87_500),
        ("mainnet", 87_499, 15_000_000, 100_000),
        ("mainnet", 0, 15_000_000, 100_000),
        # Computed by EIP-1559 from a full block; the last block's where other rules apply, which may fall in any way.
        ("mainnet", 10**12, 30_000_000, 112_500),
        ("arbitrum-one", 10**12, 30_000_000, 100_000),
        ("avalanche", 10**12, 30_000_000, 100_000),
        ("arbitrum-one", 1, 30_000_000, 1),
    ],
)
def test_the_header_replaces_a_history_that_it_rules_out(
    name: str, reported: int, gas_used: int, base_fee: int
) -> None:
    assert plausible_base_fee(network(name), reported, head(100_000, gas_used=gas_used)) == base_fee
    assert plausible_base_fee(network(name), reported, head(None)) == reported


def test_no_price_is_above_the_cap() -> None:
    assert first(policies={"gas_price_cap": 13 * GWEI}) == Prices(max_fee=13 * GWEI, max_priority_fee=TIP)
    lowest = BASE_FEE + 10_000_000
    assert first(tip=100 * GWEI, policies={"gas_price_cap": lowest}) == Prices(None, lowest, lowest)
    # Below the lowest price of the market.
    with pytest.raises(PriceTooHigh):
        first(policies={"gas_price_cap": lowest - 1})


def test_the_maximum_of_the_network_counts_where_no_cap_is_set() -> None:
    ceiling = network().max_gas_price
    base_fee = ceiling * 4 // 5
    assert first(base_fee=base_fee) == Prices(None, ceiling, TIP)
    cap = {"gas_price_cap": 3 * ceiling}
    assert (first(base_fee=base_fee, policies=cap).max_fee or 0) > ceiling
    # Tips have a maximum whatever the cap is.
    assert first(tip=2 * ceiling, policies=cap).max_priority_fee == ceiling // 10


@pytest.mark.parametrize("policies", [{}, {"eip1559_pricing": False}])
@pytest.mark.parametrize("name", ["arbitrum-one", "hyperevm", "sonic", "metis"])
def test_a_base_fee_of_zero_never_gives_a_price_of_zero(name: str, policies: dict[str, Any]) -> None:
    prices = first(name=name, policies=policies, base_fee=0, tip=0, gas_price=0)
    assert pricing.maximum(prices) == 1
    raised = pricing.replacement(prices)
    assert pricing.maximum(raised) == 2
    assert pricing.maximum(pricing.replacement(raised)) == 3


def test_a_lying_history_does_not_raise_the_price() -> None:
    assert first(history=history(10**6 * GWEI)) == first()


@given(price=PRICE)
def test_a_bump_is_an_eighth_and_at_least_one(price: int) -> None:
    raised = pricing.bumped(price)
    assert raised >= price + 1
    assert Fraction(raised) >= Fraction(price) * 9 / 8
    assert raised - 1 <= max(Fraction(price), Fraction(price) * 9 / 8)


@given(max_fee=PRICE, tip=PRICE, minimum=st.one_of(st.none(), PRICE))
def test_a_replacement_raises_each_field_and_is_valid(max_fee: int, tip: int, minimum: int | None) -> None:
    old = Prices(max_fee=max(max_fee, tip), max_priority_fee=tip)
    new = pricing.replacement(old, minimum)
    assert new.max_fee is not None
    assert new.max_priority_fee is not None
    assert new.max_fee >= max(pricing.bumped(max(max_fee, tip)), minimum or 0)
    assert new.max_fee >= new.max_priority_fee >= min(pricing.bumped(tip), new.max_fee)


@given(base_fee=PRICE, tip=PRICE, speed=st.sampled_from([*Speed]), ceiling=st.integers(1, 10**16))
def test_no_offer_exceeds_its_ceiling_or_has_a_tip_above_it(base_fee: int, tip: int, speed: str, ceiling: int) -> None:
    offer = pricing.within(MarketPrice(speed, base_fee, tip, 0).offer(is_legacy=False), ceiling)
    assert offer.max_fee is not None
    assert offer.max_priority_fee is not None
    assert 1 <= offer.max_fee <= ceiling
    assert 0 <= offer.max_priority_fee <= offer.max_fee


def test_the_highest_price_is_per_field_and_in_the_fields_of_the_newest() -> None:
    attempts = [attempt(30, 1), legacy_attempt(20), attempt(25, 2)]
    assert pricing.highest(attempts) == Prices(max_fee=30, max_priority_fee=20)
    assert pricing.highest(attempts[:2]) == Prices(gas_price=30)
    assert pricing.highest([attempt(30, 0)]) == Prices(max_fee=30, max_priority_fee=0)
    # One found on the chain has no price to outbid.
    assert pricing.highest([attempt(max_fee_text="", max_priority_fee_text="")]) is None


def test_a_higher_price_costs_as_much_more_as_the_gas_limit() -> None:
    assert pricing.cost_after(attempt(100, 1, gas_limit=10, max_cost_text="1234"), Prices(None, 113, 2)) == 1_364


def test_a_minimum_below_the_maximum_fee_is_that_of_the_tip() -> None:
    old = Prices(max_fee=80 * GWEI, max_priority_fee=8 * GWEI)
    assert pricing.replacement(old, 20 * GWEI) == Prices(max_fee=90 * GWEI, max_priority_fee=20 * GWEI)
    assert pricing.replacement(old, 90 * GWEI) == Prices(max_fee=90 * GWEI, max_priority_fee=9 * GWEI)
    assert pricing.replacement(old, 100 * GWEI) == Prices(max_fee=100 * GWEI, max_priority_fee=9 * GWEI)
    legacy = Prices(gas_price=80 * GWEI)
    assert pricing.replacement(legacy, 20 * GWEI) == Prices(gas_price=90 * GWEI)
    assert pricing.replacement(legacy, 100 * GWEI) == Prices(gas_price=100 * GWEI)
    assert pricing.replacement(Prices(max_fee=0, max_priority_fee=0)) == Prices(max_fee=1, max_priority_fee=1)
    assert pricing.replacement(Prices(max_fee=8, max_priority_fee=0)) == Prices(max_fee=9, max_priority_fee=1)


def test_tips_are_those_of_the_network() -> None:
    assert first(name="polygon", tip=1).max_priority_fee == 25 * GWEI
    for name in ("arbitrum-one", "zksync-era"):
        assert first(name=name) == Prices(max_fee=16_018_066_407, max_priority_fee=0)
