"""What gas costs, from what a node tells of the last blocks."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from relayers.chain import gas_price
from relayers.chain.answers import ChainError
from relayers.chain.errors import InsufficientData
from relayers.chain.gas_price import FeeHistory, FeeRules, GasPrice
from relayers.chain.networks import networks
from tests.rpc.chain import Chain
from tests.rpc.estimates import (
    HISTORY,
    ask,
    failure,
    local_network,
    node_answering,
    relayer_at,
    unsigned_with_blobs,
)

NO_HISTORY = failure(
    -32005,
    "Insufficient data",
    "The node does not tell the fees of the last blocks. On a network without EIP-1559, the relayer needs the policy "
    "eip1559_pricing: false.",
)
RULES = FeeRules(priority_fee_floor=0, base_fee_margin_bps=0, gas_buffer_bps=0)


def history(ratios: list[Any], tips: list[list[int]], **changes: Any) -> dict[str, Any]:
    """Return a fee history: base fees of 100 and 200 for the next block, and these tips at 40, 50, 60 and 70."""
    reward = [[hex(tip) for tip in row] for row in tips]
    return {"baseFeePerGas": ["0x64"] * len(ratios) + ["0xc8"], "gasUsedRatio": ratios, "reward": reward} | changes


@pytest.mark.parametrize(
    ("ratio", "tip"),
    [
        (0, 40),
        (0.0, 40),
        (0.5, 40),
        (0.5000000000000001, 50),
        (0.7, 50),
        (0.7000000000000001, 60),
        (0.8999999999999999, 60),
        (0.9, 60),
        (0.9000000000000001, 70),
        (1, 70),
        (1.0, 70),
        (-0.5, 40),
        (1.5, 70),
    ],
)
def test_the_fuller_the_blocks_the_higher_the_percentile(ratio: Any, tip: int) -> None:
    assert gas_price.read_history(history([ratio], [[40, 50, 60, 70]])) == FeeHistory(base_fee=200, priority_fee=tip)


@pytest.mark.parametrize(
    ("ratios", "tip"),
    # Of the mean, exactly: 0.75 and 0.25 are half full, and a little more is over it.
    [([0.75, 0.25], 40), ([0.75, 0.25000000000000006], 50), ([1] * 9 + [0], 60), ([1] * 10, 70)],
)
def test_fullness_is_the_mean_of_the_blocks(ratios: list[Any], tip: int) -> None:
    assert gas_price.read_history(history(ratios, [[40, 50, 60, 70]] * len(ratios))).priority_fee == tip


@pytest.mark.parametrize(
    ("tips", "tip"),
    [([5], 5), ([9, 1, 5], 5), ([1, 2], 2), ([0, 0, 7, 9], 7), ([0, 0, 0, 9], 0), (list(range(10)), 5)],
)
def test_the_tip_is_the_median_of_the_blocks_and_the_higher_of_two(tips: list[int], tip: int) -> None:
    rows = [[each, 99, 99, 99] for each in tips]
    assert gas_price.read_history(history([0] * len(tips), rows)) == FeeHistory(base_fee=200, priority_fee=tip)


def test_numbers_may_be_as_large_as_a_chain_has_them() -> None:
    most = 2**256 - 1
    large = history([1], [[most] * 4], baseFeePerGas=["0x0", hex(most)])
    assert gas_price.read_history(large) == FeeHistory(base_fee=most, priority_fee=most)


BROKEN: list[Any] = [
    None,
    5,
    [],
    "0x1",
    {},
    ChainError(-32601, "the method eth_feeHistory does not exist"),
    history([], [], baseFeePerGas=[]),
    history([], []),
    history([0.5], [[1, 2, 3, 4]], baseFeePerGas=None),
    history([0.5], [[1, 2, 3, 4]], baseFeePerGas=["0x64"]),
    history([0.5], [[1, 2, 3, 4]], baseFeePerGas=["0x64"] * 3),
    history([0.5], [[1, 2, 3, 4]], baseFeePerGas=[100, 100]),
    history([0.5], [[1, 2, 3, 4]], baseFeePerGas=["0x64", None]),
    history([0.5], [[1, 2, 3, 4]], baseFeePerGas=["0x64", "0x1" + "0" * 64]),
    history([0.5], [[1, 2, 3, 4]], baseFeePerGas=["0x64", "-0x1"]),
    history([0.5], []),
    history([0.5], [[1, 2, 3, 4]] * 2),
    history([0.5, 0.5], [[1, 2, 3, 4]]),
    history([0.95], [[1, 2, 3]]),
    history([0.5], [], reward=None),
    history([0.5], [], reward=[None]),
    history([0.5], [], reward=["0x1234"]),
    history([0.5], [], reward=[[1, 2, 3, 4]]),
    history([0.5], [], reward={"0": ["0x1"] * 4}),
    history(["0.5"], [[1, 2, 3, 4]]),
    history(["1/0"], [[1, 2, 3, 4]]),
    # As a fraction, a number that no machine has room for.
    history(["1e999999999"], [[1, 2, 3, 4]]),
    history([None], [[1, 2, 3, 4]]),
    history([True], [[1, 2, 3, 4]]),
    history([[0.5]], [[1, 2, 3, 4]]),
    {name: value for name, value in HISTORY.items() if name != "reward"},
    {name: value for name, value in HISTORY.items() if name != "baseFeePerGas"},
    {name: value for name, value in HISTORY.items() if name != "gasUsedRatio"},
]


@pytest.mark.parametrize("answer", BROKEN)
def test_a_broken_history_is_insufficient_data(answer: Any) -> None:
    with pytest.raises(InsufficientData) as raised:
        gas_price.history_reading(local_network()).read([answer])
    assert str(raised.value) == NO_HISTORY["error"]["description"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "answer",
    [
        {"result": None},
        {"result": HISTORY | {"reward": None}},
        {"error": {"code": -32601, "message": "no such thing"}},
    ],
)
def test_a_caller_is_told_of_a_missing_history_and_what_to_do(answer: dict[str, Any]) -> None:
    with node_answering(eth_feeHistory=answer) as node:
        assert ask(relayer_at(node.url)) == NO_HISTORY
        other = relayer_at(node.url, identifier="relayer-2", policies={"eip1559_pricing": False})
        # 21,000 gas with a buffer of a tenth, at a price of 105 wei: 2,425,500 wei.
        assert ask(other) == {
            "result": {"estimated_fee": "0.0000000000024255", "conversion_rate": "1", "method": "feeEstimate"}
        }


@pytest.mark.parametrize(
    ("tip", "floor", "expected"), [(7, 0, 7), (7, 6, 7), (7, 7, 7), (7, 8, 8), (0, 10**18, 10**18)]
)
def test_the_tip_is_not_below_the_floor(tip: int, floor: int, expected: int) -> None:
    price = gas_price.dynamic_price(
        FeeHistory(base_fee=100, priority_fee=tip), replace(RULES, priority_fee_floor=floor), None
    )
    assert price == GasPrice(Fraction(100 + expected), False, base_fee=100, priority_fee=expected)


def test_the_base_fee_has_a_margin_and_the_tip_has_none() -> None:
    price = gas_price.dynamic_price(FeeHistory(101, 7), replace(RULES, base_fee_margin_bps=2_001), None)
    # 101 with 20.01 percent more is 121.2101, and nothing is rounded here.
    assert price == GasPrice(Fraction(1_282_101, 10_000), False, base_fee=101, priority_fee=7)


@pytest.mark.parametrize(
    ("cap", "price", "is_capped"),
    [
        (None, 107, False),
        (106, 106, True),
        (107, 107, False),
        (108, 107, False),
        (0, 0, True),
        (2**128 - 1, 107, False),
    ],
)
def test_the_price_is_no_higher_than_the_cap(cap: int | None, price: int, is_capped: bool) -> None:
    assert gas_price.dynamic_price(FeeHistory(100, 7), RULES, cap) == GasPrice(Fraction(price), is_capped, 100, 7)
    assert gas_price.single_price(107, cap) == GasPrice(Fraction(price), is_capped)


def test_a_cap_is_compared_with_the_price_before_any_rounding() -> None:
    history, rules = FeeHistory(101, 7), replace(RULES, base_fee_margin_bps=2_001)
    assert gas_price.dynamic_price(history, rules, 128).is_capped
    assert not gas_price.dynamic_price(history, rules, 129).is_capped


@pytest.mark.parametrize("answer", [None, 105, "", "0x", "105", "0x1" + "0" * 64, [], ChainError(-32601, "no")])
@pytest.mark.parametrize(
    ("reading", "name"), [(gas_price.gas_price_reading, "gas price"), (gas_price.blob_price_reading, "blob base fee")]
)
def test_a_price_that_is_not_told_is_insufficient_data(reading: Any, name: str, answer: Any) -> None:
    with pytest.raises(InsufficientData) as raised:
        reading(local_network()).read([answer])
    assert str(raised.value) == f"The node does not tell its {name}."


@pytest.mark.parametrize("answer", [None, 21_000, "0x", "0x0", "21000", "-0x1", [], {}, "0x1" + "0" * 64])
@pytest.mark.django_db
def test_an_estimate_that_is_no_amount_of_gas_is_insufficient_data(answer: Any) -> None:
    with node_answering(eth_estimateGas={"result": answer}) as node:
        assert ask(relayer_at(node.url)) == failure(
            -32005, "Insufficient data", "The node did not say how much gas the transaction needs."
        )


@pytest.mark.parametrize(
    ("setting", "of_network", "expected"),
    [
        ((None, None, None), (None, None, None), (1_000_000, 2_000, 1_000)),
        ((None, None, None), (3, 4, 5), (3, 4, 5)),
        ((None, None, None), (0, 0, 0), (0, 0, 0)),
        ((6, 7, 8), (3, 4, 5), (6, 7, 8)),
        ((0, 0, 0), (3, 4, 5), (0, 0, 0)),
        ((None, 7, None), (3, None, None), (3, 7, 1_000)),
    ],
)
def test_the_settings_come_before_the_network_and_the_network_before_the_defaults(
    settings: Any, setting: tuple[Any, ...], of_network: tuple[Any, ...], expected: tuple[int, ...]
) -> None:
    settings.FEE_TIP_FLOOR_WEI, settings.FEE_BASE_FEE_MARGIN_BPS, settings.FEE_GAS_BUFFER_BPS = setting
    tip_floor, margin, buffer = of_network
    network = local_network(tip_floor=tip_floor, base_fee_margin_bps=margin, gas_buffer_bps=buffer)
    assert FeeRules.of(network) == FeeRules(*expected)


@pytest.mark.parametrize(
    ("name", "floor"), [("polygon", 25 * 10**9), ("mainnet", 10**7), ("arbitrum-one", 0), ("optimism", 10**6)]
)
def test_each_network_has_a_floor_of_its_own(name: str, floor: int) -> None:
    assert FeeRules.of(networks()[name]).priority_fee_floor == floor


@pytest.mark.django_db
def test_a_blob_costs_its_own_gas_at_its_own_price(settings: Any) -> None:
    settings.FEE_TIP_FLOOR_WEI, settings.FEE_BASE_FEE_MARGIN_BPS, settings.FEE_GAS_BUFFER_BPS = 0, 5_000, 0
    with node_answering(eth_blobBaseFee={"result": "0x3"}) as node:
        answer = ask(relayer_at(node.url), transaction=unsigned_with_blobs(2))
    # 21,000 gas at 100 with a half more and a tip of 5; two blobs of 131,072 gas at 3 with a half more.
    wei = 21_000 * 155 + 2 * 131_072 * 9 // 2
    assert wei == 4_434_648
    assert answer["result"]["estimated_fee"] == "0.000000000004434648"


@pytest.mark.django_db
def test_the_prices_of_a_real_node_are_read(chain: Chain, settings: Any) -> None:
    settings.FEE_TIP_FLOOR_WEI, settings.FEE_BASE_FEE_MARGIN_BPS, settings.FEE_GAS_BUFFER_BPS = 3, 0, 0
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
