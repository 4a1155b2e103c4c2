"""The price of gas: what a signed transaction says, and what the relayer pays for one that is not signed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from chain.errors import CannotBeIncluded, ChainFault, InsufficientData, PriceCapTooLow
from chain.fees.fee_history import BaseFeeSource, Market
from chain.fees.gas_price import GasPrice, at_market, at_single_price
from chain.transactions import Transaction, decode
from tests.chain import encoded
from tests.chain.answering_node import ChangeNetwork, change_network, local_network, node_answering
from tests.rpc.estimates import ask, failure, fee, relayer_at

__all__ = ["change_network"]

NETWORK = local_network(tip_floor=0, base_fee_margin_bps=2_000, gas_buffer_bps=0)
# The base fee is 120 with the margin.
MARKET = Market(base_fee=100, base_fee_source=BaseFeeSource.FEE_HISTORY, priority_fee=7)


def legacy(gas_price: int) -> dict[str, int]:
    return {"kind": 0, "gasPrice": gas_price}


def dynamic(max_fee: int, tip: int) -> dict[str, int]:
    return {"kind": 2, "maxFeePerGas": max_fee, "maxPriorityFeePerGas": tip}


def signed(fields: dict[str, int]) -> Transaction:
    return decode(encoded.text(encoded.signed(**fields)))


def unsigned(fields: dict[str, int]) -> Transaction:
    return decode(encoded.text(encoded.unsigned(**fields)))


# Without price fields, or with zeros, which read the same.
UNPRICED = unsigned(legacy(0))


def market_price(expected: int, maximum: int, tip: int, **changes: bool) -> GasPrice:
    return GasPrice(Fraction(expected), Fraction(maximum), 100, BaseFeeSource.FEE_HISTORY, tip, **changes)


@pytest.mark.parametrize(
    ("fields", "price"),
    [
        # What has one price pays it in full, whatever the market.
        (legacy(150), market_price(150, 150, 50, is_own=True)),
        ({"kind": 1, "gasPrice": 10**30}, market_price(10**30, 10**30, 10**30 - 100, is_own=True)),
        (dynamic(200, 10), market_price(110, 130, 10)),
        (dynamic(200, 200), market_price(200, 200, 200, is_own=True)),
        (dynamic(130, 10), market_price(110, 130, 10, is_own=True)),
        (dynamic(105, 10), market_price(105, 105, 10, is_own=True)),
        (dynamic(100, 10), market_price(100, 100, 10, is_own=True)),
        # A tip of zero is what a signed one says.
        (dynamic(200, 0), market_price(100, 120, 0)),
    ],
)
def test_a_signed_transaction_costs_what_it_says(fields: dict[str, int], price: GasPrice) -> None:
    network = replace(NETWORK, tip_floor=9)
    assert at_market(signed(fields), MARKET, network, cap=None) == price
    # The relayer does not price it: its cap has no say.
    assert at_market(signed(fields), MARKET, network, cap=1) == price


@pytest.mark.parametrize(
    ("fields", "price"),
    [
        (legacy(0), market_price(107, 127, 7)),
        (legacy(127), market_price(107, 127, 7, is_own=True)),
        (legacy(128), market_price(107, 127, 7)),
        (legacy(105), market_price(105, 105, 7, is_own=True)),
        (dynamic(0, 0), market_price(107, 127, 7)),
        (dynamic(0, 3), market_price(103, 123, 3)),
        (dynamic(0, 9), market_price(107, 127, 7)),
        (dynamic(110, 3), market_price(103, 110, 3, is_own=True)),
        (dynamic(10**30, 10**30), market_price(107, 127, 7)),
    ],
)
def test_the_price_fields_of_an_unsigned_one_are_limits_and_zero_is_none(
    fields: dict[str, int], price: GasPrice
) -> None:
    assert at_market(unsigned(fields), MARKET, NETWORK, cap=None) == price


@pytest.mark.parametrize("transaction", [signed(legacy(99)), signed(dynamic(99, 0)), unsigned(dynamic(99, 99))])
def test_an_offer_below_the_next_base_fee_cannot_be_included(transaction: Transaction) -> None:
    with pytest.raises(CannotBeIncluded) as raised:
        at_market(transaction, MARKET, NETWORK, cap=None)
    assert str(raised.value) == (
        "The transaction cannot be included: it offers 99 wei per gas, below the next base fee of 100 wei."
    )


@pytest.mark.parametrize(
    ("transaction", "price"),
    [
        (signed(legacy(150)), market_price(100, 120, 0)),
        (signed(dynamic(105, 10)), market_price(100, 105, 0, is_own=True)),
        (UNPRICED, market_price(100, 120, 0)),
    ],
)
def test_where_tips_are_dropped_the_base_fee_is_all_that_is_paid(transaction: Transaction, price: GasPrice) -> None:
    network = replace(NETWORK, tip_floor=9)
    assert at_market(transaction, MARKET, network, cap=None, pays_priority_fee=False) == price


@pytest.mark.parametrize(("floor", "tip"), [(6, 7), (8, 8)])
def test_the_tip_is_not_below_the_floor_but_for_a_transactions_own(floor: int, tip: int) -> None:
    network = replace(NETWORK, tip_floor=floor)
    assert at_market(UNPRICED, MARKET, network, cap=None) == market_price(100 + tip, 120 + tip, tip)
    assert at_market(unsigned(dynamic(0, 3)), MARKET, network, cap=None) == market_price(103, 123, 3)


def test_the_base_fee_has_a_margin_and_the_tip_has_none_and_nothing_is_rounded() -> None:
    market, network = replace(MARKET, base_fee=101), replace(NETWORK, base_fee_margin_bps=2_001)
    # 101 with 20.01 percent more is 121.2101.
    maximum = Fraction(1_282_101, 10_000)
    expected = GasPrice(Fraction(108), maximum, 101, BaseFeeSource.FEE_HISTORY, 7)
    assert at_market(UNPRICED, market, network, cap=None) == expected
    assert at_market(UNPRICED, market, network, cap=129) == expected
    assert at_market(UNPRICED, market, network, cap=128) == replace(expected, maximum=Fraction(128), is_capped=True)


def test_a_base_fee_of_zero_is_one() -> None:
    market = replace(MARKET, base_fee=0)
    expected = GasPrice(Fraction(7), Fraction(7), 0, BaseFeeSource.FEE_HISTORY, 7)
    assert at_market(UNPRICED, market, NETWORK, cap=None) == expected
    assert at_market(UNPRICED, market, NETWORK, cap=0) == replace(
        expected, expected=Fraction(0), maximum=Fraction(0), is_capped=True
    )


@pytest.mark.parametrize(
    ("cap", "price"),
    [
        (100, market_price(100, 100, 7, is_capped=True)),
        (126, market_price(107, 126, 7, is_capped=True)),
        (127, market_price(107, 127, 7)),
    ],
)
def test_the_price_is_no_higher_than_the_cap(cap: int | None, price: GasPrice) -> None:
    assert at_market(UNPRICED, MARKET, NETWORK, cap=cap) == price


@pytest.mark.django_db
def test_a_cap_below_the_next_base_fee_is_an_error_that_names_both() -> None:
    with pytest.raises(PriceCapTooLow) as raised:
        at_market(UNPRICED, MARKET, NETWORK, cap=99)
    assert str(raised.value) == "The price cap of 99 wei is below the next base fee of 100 wei."
    with node_answering() as node:
        assert ask(relayer_at(node.url, policies={"gas_price_cap": 99})) == failure(
            -32004,
            "Policy refused",
            "The relayer's policy gas_price_cap is 99 wei, below the next base fee of 100 wei: no transaction "
            "would be included at that price.",
        )


@pytest.mark.parametrize(
    ("transaction", "cap", "price"),
    [
        (UNPRICED, None, GasPrice(Fraction(105), Fraction(105))),
        (UNPRICED, 105, GasPrice(Fraction(105), Fraction(105))),
        (UNPRICED, 50, GasPrice(Fraction(50), Fraction(50), is_capped=True)),
        (unsigned(dynamic(60, 60)), None, GasPrice(Fraction(60), Fraction(60), is_own=True)),
        (signed(legacy(200)), 50, GasPrice(Fraction(200), Fraction(200), is_own=True)),
        # It may pay its maximum, above the node's price too.
        (signed(dynamic(200, 150)), 50, GasPrice(Fraction(200), Fraction(200), is_own=True)),
    ],
)
def test_a_single_price_has_the_same_limits(transaction: Transaction, cap: int | None, price: GasPrice) -> None:
    assert at_single_price(transaction, 105, None, cap=cap) == price


TOO_LOW = "The price cap of 87 wei is below the next base fee of at least 88 wei."
NOT_INCLUDED = (
    "The transaction cannot be included: it offers 87 wei per gas, below the next base fee of at least 88 wei."
)


@pytest.mark.parametrize(
    ("transaction", "cap", "fault"),
    [
        (unsigned(dynamic(0, 0)), 87, TOO_LOW),
        (signed(dynamic(87, 1)), None, NOT_INCLUDED),
        (unsigned(legacy(87)), None, NOT_INCLUDED),
    ],
)
def test_where_there_is_a_base_fee_a_single_price_is_held_against_it(
    transaction: Transaction, cap: int | None, fault: str
) -> None:
    # After a base fee of 100 wei, that of the next block is 88 at least.
    with pytest.raises(ChainFault) as refused:
        at_single_price(transaction, 105, 100, cap=cap)
    assert str(refused.value) == fault
    assert at_single_price(unsigned(dynamic(0, 0)), 88, 100, cap=88) == GasPrice(88, 88)


def test_a_nodes_price_below_its_base_fee_is_not_believed() -> None:
    with pytest.raises(InsufficientData, match="below its base fee"):
        at_single_price(unsigned(dynamic(0, 0)), 87, 100, cap=None)


@pytest.mark.django_db
@pytest.mark.parametrize(("kind", "wei"), [("none", "0.00000000000273"), ("arbitrum", "0.000000000002772")])
def test_arbitrum_drops_the_tip_of_a_signed_transaction_and_buffers_even_a_transfer(
    change_network: ChangeNetwork, kind: str, wei: str
) -> None:
    change_network(kind=kind)
    with node_answering() as node:
        transaction = encoded.text(encoded.signed(2, maxFeePerGas=1_000, maxPriorityFeePerGas=10, data="0x"))
        # 21,000 at 130; or 23,100 at 120.
        assert ask(relayer_at(node.url), transaction=transaction) == fee(wei)
