"""Fees at the ends of what tokens, rates and amounts can be: exact to the last unit, and written out."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayer_service.amounts import decimal_text, rate_text, token_units
from relayers.models import Relayer
from tests.chain import independent
from tests.chain.answering_node import ChangeNetwork, change_network, unsigned
from tests.chain.fixtures import Deployed
from tests.chain.hardhat import GAS_PRICE_ORACLE, Chain
from tests.chain.independent import fixed_rate
from tests.rpc import factories
from tests.rpc.estimates import ask, relayer_at
from tests.rpc.factories import store

__all__ = ["change_network"]

# The largest amount that the service has to do with.
MAX_WEI = 2**128 - 1
SMALLEST_RATE, LARGEST_RATE = "0.000000000000000001", "1000000000000000000"
PLAIN = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]*[1-9])?", re.ASCII)


@pytest.fixture
def relayer(chain: Chain, change_network: ChangeNetwork, db: None) -> Relayer:
    """A relayer on an OP-stack chain without a price of gas: its operator fee is all that is paid, any amount."""
    change_network(kind="op-stack", tip_floor=0)
    chain.set_code(GAS_PRICE_ORACLE, "IsthmusGasPriceOracle")
    chain.set_next_base_fee(0)
    # Empty blocks, so that no tip was paid in the last ones, and the base fee stays zero.
    chain.mine(10)
    return relayer_at(chain.url, policies={"gas_limit_estimation": False})


def estimated(relayer: Relayer, chain: Chain, wei: int, **token: Any) -> dict[str, Any]:
    """Return the answer for a transaction that costs so many wei."""
    store(chain, GAS_PRICE_ORACLE, 0, 0, wei)
    if token:
        rate = token.pop("rate")
        factories.fixed_source(factories.fee_token(symbol="TKN", **token), rate)
    return ask(relayer, "TKN" if token else "ETH", unsigned(gas=21_000))


def result(estimated_fee: str, conversion_rate: str) -> dict[str, Any]:
    return {"result": {"estimated_fee": estimated_fee, "conversion_rate": conversion_rate, "method": "feeEstimate"}}


# 2^128 - 1 is 340282366920938463463374607431768211455.
@pytest.mark.parametrize(
    ("wei", "token", "rate", "fee"),
    [
        (MAX_WEI, "token_0", SMALLEST_RATE, "341"),
        (MAX_WEI, "token_30", LARGEST_RATE, "340282366920938463463374607431768211455"),
        (1, "token_30", SMALLEST_RATE, "0.000000000000000000000000000001"),
        (0, "token_0", LARGEST_RATE, "1"),
        (10**18 + 1, "token_6", "1", "1.000001"),
    ],
)
def test_a_fee_is_exact_to_the_last_unit(
    chain: Chain, deployed: Deployed, relayer: Relayer, wei: int, token: str, rate: str, fee: str
) -> None:
    found = estimated(relayer, chain, wei, address=getattr(deployed, token), rate=rate)
    assert found == result(fee, rate)


@pytest.mark.parametrize(
    ("wei", "fee"), [(MAX_WEI, "340282366920938463463.374607431768211455"), (0, "0.000000000000000001")]
)
def test_a_fee_in_the_native_coin_is_exact_to_the_wei(chain: Chain, relayer: Relayer, wei: int, fee: str) -> None:
    assert estimated(relayer, chain, wei) == result(fee, "1")


def test_a_margin_is_added_before_the_one_rounding(chain: Chain, deployed: Deployed, relayer: Relayer) -> None:
    rate = "0.333333333333333333333333333333"
    found = estimated(relayer, chain, MAX_WEI, address=deployed.token_6, rate=rate, margin_bps=3_333)
    fee = independent.token_fee((MAX_WEI, 1), fixed_rate(rate), 6, 3_333)
    assert found == result(independent.units_text(fee, 6), rate)


def test_the_largest_price_of_gas_is_exact(chain: Chain, change_network: ChangeNetwork, relayer: Relayer) -> None:
    change_network(kind="op-stack", tip_floor=MAX_WEI)
    # 21,000 gas at 2^128 - 1 wei.
    assert estimated(relayer, chain, 0) == result("7145929705339707732730866.756067132440555", "1")


@pytest.mark.parametrize(
    ("above", "below", "text"),
    [
        (100, 1, "100"),
        (1, 4, "0.25"),
        (1, 10**60, "0." + "0" * 59 + "1"),
        (2, 3, "0." + "6" * 39 + "7"),
        (1, 3 * 10**18, "0." + "0" * 18 + "3" * 40),
        # Of 41 digits, the last of which is a half: to the even neighbour.
        (10**40 + 5, 10, "1" + "0" * 39),
        (10**40 + 15, 10, "1" + "0" * 38 + "2"),
        # All nines: the rounding gives one more digit.
        (10**41 - 1, 10**41, "1"),
    ],
)
def test_a_rate_is_written_out(above: int, below: int, text: str) -> None:
    assert rate_text(Fraction(above, below)) == text
    assert independent.rate_text((above, below)) == text


AMOUNTS = st.integers(0, 2**128 - 1)
DECIMALS = st.integers(0, 255)
BPS = st.integers(0, 10_000)
RATES = st.builds(Fraction, st.integers(1, 10**60), st.integers(1, 10**60))


@given(st.builds(Fraction, AMOUNTS, st.integers(1, 10**8)), RATES, st.integers(0, 77), BPS)
def test_units_are_the_fewest_that_cover_the_exact_value(
    native: Fraction, rate: Fraction, decimals: int, margin_bps: int
) -> None:
    units = token_units(native, rate, decimals, 18, margin_bps)
    exact = native * rate * Fraction(10) ** (decimals - 18) * (1 + Fraction(margin_bps, 10_000))
    assert units >= exact
    assert units == 1 or units - 1 < exact
    assert units == independent.token_fee(
        (native.numerator, native.denominator), (rate.numerator, rate.denominator), decimals, margin_bps
    )


@given(st.integers(0, 2**300), DECIMALS)
def test_an_amount_is_read_back_from_its_text(units: int, decimals: int) -> None:
    text = decimal_text(units, decimals)
    assert PLAIN.fullmatch(text)
    whole, _, part = text.partition(".")
    assert len(part) <= decimals
    assert int(whole + part.ljust(decimals, "0")) == units
    assert text == independent.units_text(units, decimals)


@given(RATES)
def test_a_rate_is_within_half_a_unit_of_its_last_digit(rate: Fraction) -> None:
    text = rate_text(rate)
    assert PLAIN.fullmatch(text)
    assert text == independent.rate_text((rate.numerator, rate.denominator))
    # The unit of the 40th digit, of which the first is not zero.
    unit = Fraction(10) ** (Decimal(text).adjusted() - 39)
    assert abs(Fraction(text) - rate) <= unit / 2
    assert len(text.replace(".", "").strip("0")) <= 40


@given(st.integers(1, 10**40 - 1), st.integers(0, 60))
def test_a_rate_that_ends_is_exact(digits: int, places: int) -> None:
    assert Fraction(rate_text(Fraction(digits, 10**places))) == Fraction(digits, 10**places)
