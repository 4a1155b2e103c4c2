"""The price of gas: what a signed transaction says, and what the relayer pays for one that is not signed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from chain.errors import CannotBeIncluded, ChainFault, InsufficientData, PriceCapTooLow
from chain.fees import gas_price
from chain.fees.fee_history import BaseFeeSource, Market
from chain.fees.gas_price import FeeRules, GasPrice, at_market, at_single_price
from chain.networks import networks
from chain.transactions import Transaction, decode
from tests.chain import encoded
from tests.chain.answering_node import ChangeNetwork, change_network, local_network, node_answering
from tests.chain.hardhat import Chain
from tests.rpc.estimates import ask, failure, fee, relayer_at

__all__ = ["change_network"]

RULES = FeeRules(priority_fee_floor=0, base_fee_margin_bps=2_000, gas_buffer_bps=0)
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
        (legacy(100), market_price(100, 100, 0, is_own=True)),
        ({"kind": 1, "gasPrice": 10**30}, market_price(10**30, 10**30, 10**30 - 100, is_own=True)),
        (dynamic(200, 10), market_price(110, 130, 10)),
        (dynamic(200, 200), market_price(200, 200, 200, is_own=True)),
        (dynamic(130, 10), market_price(110, 130, 10, is_own=True)),
        (dynamic(120, 10), market_price(110, 120, 10, is_own=True)),
        (dynamic(105, 10), market_price(105, 105, 10, is_own=True)),
        (dynamic(100, 10), market_price(100, 100, 10, is_own=True)),
        # A tip of zero is what a signed one says.
        (dynamic(200, 0), market_price(100, 120, 0)),
    ],
)
def test_a_signed_transaction_costs_what_it_says(fields: dict[str, int], price: GasPrice) -> None:
    rules = replace(RULES, priority_fee_floor=9)
    assert at_market(signed(fields), MARKET, rules, cap=None) == price
    # The relayer does not price it: its cap has no say.
    assert at_market(signed(fields), MARKET, rules, cap=1) == price


@pytest.mark.parametrize(
    ("fields", "price"),
    [
        (legacy(0), market_price(107, 127, 7)),
        (legacy(127), market_price(107, 127, 7, is_own=True)),
        (legacy(128), market_price(107, 127, 7)),
        (legacy(110), market_price(107, 110, 7, is_own=True)),
        (legacy(105), market_price(105, 105, 7, is_own=True)),
        (legacy(100), market_price(100, 100, 7, is_own=True)),
        (dynamic(0, 0), market_price(107, 127, 7)),
        (dynamic(0, 3), market_price(103, 123, 3)),
        (dynamic(0, 9), market_price(107, 127, 7)),
        (dynamic(110, 0), market_price(107, 110, 7, is_own=True)),
        (dynamic(110, 3), market_price(103, 110, 3, is_own=True)),
        (dynamic(10**30, 10**30), market_price(107, 127, 7)),
    ],
)
def test_the_price_fields_of_an_unsigned_one_are_limits_and_zero_is_none(
    fields: dict[str, int], price: GasPrice
) -> None:
    assert at_market(unsigned(fields), MARKET, RULES, cap=None) == price


@pytest.mark.parametrize("fields", [legacy(99), dynamic(99, 99), dynamic(99, 0)])
@pytest.mark.parametrize("make", [signed, unsigned])
def test_an_offer_below_the_next_base_fee_cannot_be_included(make: Any, fields: dict[str, int]) -> None:
    with pytest.raises(CannotBeIncluded) as raised:
        at_market(make(fields), MARKET, RULES, cap=None)
    assert str(raised.value) == (
        "The transaction cannot be included: it offers 99 wei per gas, below the next base fee of 100 wei."
    )


@pytest.mark.parametrize(
    ("transaction", "price"),
    [
        (signed(legacy(150)), market_price(100, 120, 0)),
        (signed(legacy(110)), market_price(100, 110, 0, is_own=True)),
        (signed(dynamic(200, 10)), market_price(100, 120, 0)),
        (signed(dynamic(105, 10)), market_price(100, 105, 0, is_own=True)),
        (UNPRICED, market_price(100, 120, 0)),
    ],
)
def test_where_tips_are_dropped_the_base_fee_is_all_that_is_paid(transaction: Transaction, price: GasPrice) -> None:
    rules = replace(RULES, priority_fee_floor=9)
    assert at_market(transaction, MARKET, rules, cap=None, pays_priority_fee=False) == price


@pytest.mark.parametrize(
    ("tip", "floor", "expected"), [(7, 0, 7), (7, 6, 7), (7, 7, 7), (7, 8, 8), (0, 10**18, 10**18)]
)
def test_the_tip_is_not_below_the_floor(tip: int, floor: int, expected: int) -> None:
    market, rules = replace(MARKET, priority_fee=tip), replace(RULES, priority_fee_floor=floor)
    assert at_market(UNPRICED, market, rules, cap=None) == market_price(100 + expected, 120 + expected, expected)


def test_a_transactions_own_tip_may_be_below_the_floor() -> None:
    rules = replace(RULES, priority_fee_floor=50)
    assert at_market(unsigned(dynamic(0, 3)), MARKET, rules, cap=None) == market_price(103, 123, 3)


def test_the_base_fee_has_a_margin_and_the_tip_has_none_and_nothing_is_rounded() -> None:
    market, rules = replace(MARKET, base_fee=101), replace(RULES, base_fee_margin_bps=2_001)
    # 101 with 20.01 percent more is 121.2101.
    maximum = Fraction(1_282_101, 10_000)
    expected = GasPrice(Fraction(108), maximum, 101, BaseFeeSource.FEE_HISTORY, 7)
    assert at_market(UNPRICED, market, rules, cap=None) == expected
    assert at_market(UNPRICED, market, rules, cap=129) == expected
    assert at_market(UNPRICED, market, rules, cap=128) == replace(expected, maximum=Fraction(128), is_capped=True)


def test_a_base_fee_of_zero_is_one() -> None:
    market = replace(MARKET, base_fee=0)
    expected = GasPrice(Fraction(7), Fraction(7), 0, BaseFeeSource.FEE_HISTORY, 7)
    assert at_market(UNPRICED, market, RULES, cap=None) == expected
    assert at_market(UNPRICED, market, RULES, cap=0) == replace(
        expected, expected=Fraction(0), maximum=Fraction(0), is_capped=True
    )


@pytest.mark.parametrize(
    ("cap", "price"),
    [
        (None, market_price(107, 127, 7)),
        (100, market_price(100, 100, 7, is_capped=True)),
        (106, market_price(106, 106, 7, is_capped=True)),
        (126, market_price(107, 126, 7, is_capped=True)),
        (127, market_price(107, 127, 7)),
        (2**128 - 1, market_price(107, 127, 7)),
    ],
)
def test_the_price_is_no_higher_than_the_cap(cap: int | None, price: GasPrice) -> None:
    assert at_market(UNPRICED, MARKET, RULES, cap=cap) == price


@pytest.mark.parametrize("cap", [0, 1, 99])
def test_a_cap_below_the_next_base_fee_is_an_error_that_names_both(cap: int) -> None:
    with pytest.raises(PriceCapTooLow) as raised:
        at_market(UNPRICED, MARKET, RULES, cap=cap)
    assert str(raised.value) == (f"The price cap of {cap} wei is below the next base fee of 100 wei.")


@pytest.mark.parametrize(
    ("transaction", "cap", "price"),
    [
        (UNPRICED, None, GasPrice(Fraction(105), Fraction(105))),
        (UNPRICED, 105, GasPrice(Fraction(105), Fraction(105))),
        (UNPRICED, 50, GasPrice(Fraction(50), Fraction(50), is_capped=True)),
        (unsigned(legacy(60)), None, GasPrice(Fraction(60), Fraction(60), is_own=True)),
        (unsigned(dynamic(60, 60)), None, GasPrice(Fraction(60), Fraction(60), is_own=True)),
        (unsigned(legacy(200)), None, GasPrice(Fraction(105), Fraction(105))),
        (signed(legacy(200)), 50, GasPrice(Fraction(200), Fraction(200), is_own=True)),
        (signed(legacy(60)), None, GasPrice(Fraction(60), Fraction(60), is_own=True)),
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
        (signed(legacy(87)), None, NOT_INCLUDED),
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


@pytest.mark.parametrize(
    ("of_network", "expected"),
    [
        ((None, None, None), (1_000_000, 2_000, 1_000)),
        ((3, 4, 5), (3, 4, 5)),
        ((0, 0, 0), (0, 0, 0)),
        ((3, None, None), (3, 2_000, 1_000)),
    ],
)
def test_the_network_comes_before_the_defaults(of_network: tuple[Any, ...], expected: tuple[int, ...]) -> None:
    tip_floor, margin, buffer = of_network
    network = local_network(tip_floor=tip_floor, base_fee_margin_bps=margin, gas_buffer_bps=buffer)
    assert FeeRules.for_network(network) == FeeRules(*expected)


@pytest.mark.parametrize(("of_network", "expected"), [(None, 1_000), (0, 0), (77, 77)])
def test_the_margin_of_l1_fees_is_the_networks_or_a_tenth(of_network: int | None, expected: int) -> None:
    assert FeeRules.for_network(local_network(l1_fee_margin_bps=of_network)).l1_fee_margin_bps == expected


@pytest.mark.parametrize(
    ("name", "floor"), [("polygon", 25 * 10**9), ("mainnet", 10**7), ("arbitrum-one", 0), ("optimism", 10**6)]
)
def test_each_network_has_a_floor_of_its_own(name: str, floor: int) -> None:
    assert FeeRules.for_network(networks()[name]).priority_fee_floor == floor


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("make", "fields", "answer"),
    [
        # 21,000 gas with its base fee of 100, or of 120 at most.
        (encoded.signed, legacy(1_000), fee("0.000000000021")),
        (encoded.signed, dynamic(1_000, 10), fee("0.00000000000273")),
        (encoded.signed, dynamic(115, 10), fee("0.000000000002415")),
        (encoded.unsigned, legacy(1_000), fee("0.000000000021")),
        (encoded.unsigned, dynamic(0, 10), fee("0.00000000000273")),
        (encoded.unsigned, dynamic(115, 10), fee("0.000000000002415")),
        # The floor of 1,000,000.
        (encoded.unsigned, dynamic(0, 0), fee("0.00000002100252")),
        *(
            (
                make,
                fields,
                failure(
                    -32003,
                    "Execution reverted",
                    "The transaction cannot be included: it offers 99 wei per gas, below the next base fee of "
                    "100 wei.",
                ),
            )
            for make in (encoded.signed, encoded.unsigned)
            for fields in (legacy(99), dynamic(99, 1))
        ),
    ],
)
def test_a_caller_gets_the_fee_at_the_transactions_own_prices(
    make: Any, fields: dict[str, int], answer: dict[str, Any]
) -> None:
    with node_answering() as node:
        relayer = relayer_at(node.url)
        assert ask(relayer, transaction=encoded.text(make(**fields, gas=30_000, data="0x"))) == answer


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


@pytest.mark.django_db
def test_a_cap_below_the_next_base_fee_is_reported_to_the_client() -> None:
    with node_answering() as node:
        relayer = relayer_at(node.url, policies={"gas_price_cap": 99})
        assert ask(relayer) == failure(
            -32004,
            "Policy refused",
            "The relayer's policy gas_price_cap is 99 wei, below the next base fee of 100 wei: no transaction "
            "would be included at that price.",
        )


@pytest.mark.django_db
def test_the_prices_of_a_real_node_are_read(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gas_price, "DEFAULT_PRIORITY_FEE_FLOOR", 3)
    monkeypatch.setattr(gas_price, "DEFAULT_BASE_FEE_MARGIN_BPS", 0)
    monkeypatch.setattr(gas_price, "DEFAULT_GAS_BUFFER_BPS", 0)
    # Empty blocks: the tip is the floor.
    chain.mine(10)
    chain.set_next_base_fee(1_000)
    relayer = relayer_at(chain.url, policies={"gas_limit_estimation": False})
    # The transaction's own 50,000 gas at 1,003.
    assert ask(relayer)["result"]["estimated_fee"] == "0.00000000005015"
    single = relayer_at(
        chain.url, identifier="relayer-2", policies={"gas_limit_estimation": False, "eip1559_pricing": False}
    )
    # Hardhat's price has a gigawei more than the base fee.
    assert ask(single)["result"]["estimated_fee"] == "0.00005000005"
