"""The fees of the next block, from the last blocks as clients really report them."""

from __future__ import annotations

from typing import Any

import pytest

from chain.errors import InsufficientData
from chain.fees import fee_history
from chain.fees.fee_history import (
    REQUESTED_PERCENTILES,
    SPEEDS,
    BaseFeeSource,
    FeeHistory,
    Market,
    next_base_fee,
    read_history,
)
from chain.networks import BaseFeeRule
from chain.nodes.answers import ChainError
from chain.nodes.head import Head
from chain.nodes.plausibility import by_eip_1559
from tests.chain.answering_node import (
    HEAD,
    HISTORY,
    ChangeNetwork,
    change_network,
    local_network,
    node_answering,
    set_defaults,
)
from tests.rpc.estimates import ask, failure, fee, quote, relayer_at

__all__ = ["change_network", "set_defaults"]

NO_HISTORY = failure(
    -32005,
    "Insufficient data",
    "The node did not report the fees of the last blocks. On a network without EIP-1559, set the relayer's policy "
    "eip1559_pricing to false.",
)
MAX = 2**256 - 1
# Each is its own percentile.
TIPS = [30, 40, 50, 60, 70, 75, 90]
# As Avalanche's and Sonic's clients report: no base fee of the next block.
WITHOUT_NEXT = HISTORY | {"baseFeePerGas": ["0x64"]}
# A full block: by EIP-1559 the next base fee is an eighth higher, rounded down.
FULL = HEAD | {"gasUsed": HEAD["gasLimit"]}
HALF_FULL = Head(7, 1_700_000_000, gas_used=15_000_000, gas_limit=30_000_000, base_fee=100)


def history(ratios: list[Any], tips: list[list[int]], **changes: Any) -> dict[str, Any]:
    """Return a fee history with base fees of 100, and 200 for the next block."""
    reward = [[hex(tip) for tip in row] for row in tips]
    return {"baseFeePerGas": ["0x64"] * len(ratios) + ["0xc8"], "gasUsedRatio": ratios, "reward": reward} | changes


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in HISTORY.items() if key != name}


@pytest.fixture
def exact(settings: Any, set_defaults: ChangeNetwork) -> None:
    """Quote the market as it is: no floor, no margin, and feeQuote to see its parts."""
    set_defaults(tip_floor=0, base_fee_margin_bps=0)
    settings.EXTENSIONS = ["quotes"]


def test_the_requested_percentiles_are_those_of_fullness_and_speeds() -> None:
    assert REQUESTED_PERCENTILES == TIPS
    assert SPEEDS == {"safeLow": 30, "average": 50, "fast": 75, "fastest": 90}


@pytest.mark.parametrize(
    ("ratios", "percentile"),
    [
        # Of the mean, exactly: 0.75 and 0.25 are half full, and a little more is over it.
        ([0.75, 0.25], 40),
        ([0.75, 0.25000000000000006], 50),
        ([0.7], 50),
        ([0.7000000000000001], 60),
        ([0.9], 60),
        ([0.9000000000000001], 70),
        # Less than empty is empty, more than full is full.
        ([-0.5], 40),
        ([1e308], 70),
        ([9.5, 0], 40),
    ],
)
def test_the_fuller_the_blocks_the_higher_the_percentile(ratios: list[Any], percentile: int) -> None:
    blocks = len(ratios)
    assert read_history(history(ratios, [TIPS] * blocks)) == FeeHistory(
        base_fee=200, has_next=True, percentile=percentile, rewards=(tuple(TIPS),) * blocks
    )


def test_without_the_next_base_fee_the_last_one_is_read_of_any_number_of_blocks() -> None:
    read = read_history(history([0.5] * 3, [TIPS] * 3, baseFeePerGas=["0x1", "0x2", hex(MAX)]))
    assert (read.base_fee, read.has_next) == (MAX, False)
    assert [read.priority_fee(percentile) for percentile in TIPS] == TIPS


@pytest.mark.parametrize("ratio", [0, 5.5, None])
def test_where_the_fullness_is_not_to_be_trusted_the_median_tip_is_offered(ratio: Any) -> None:
    assert read_history(history([ratio], [TIPS]), reports_fullness=False).percentile == 50


@pytest.mark.parametrize(
    ("tips", "tip"),
    [([9, 1, 5], 5), ([1, 2], 2), ([0, 0, 7, 9], 7)],
)
def test_the_tip_is_the_median_of_the_blocks_and_the_higher_of_two(tips: list[int], tip: int) -> None:
    rows = [[99, each, *[99] * 5] for each in tips]
    assert read_history(history([0] * len(tips), rows)).priority_fee(40) == tip


@pytest.mark.parametrize("answer", [without("reward"), HISTORY | {"reward": None}, HISTORY | {"reward": []}])
def test_a_history_without_tips_has_a_tip_of_nothing(answer: Any) -> None:
    read = read_history(answer)
    assert read == FeeHistory(base_fee=100, has_next=True, percentile=40, rewards=())
    assert [read.priority_fee(percentile) for percentile in TIPS] == [0] * 7


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        ChainError(-32601, "the method eth_feeHistory does not exist"),
        history([], []),
        *(history([0.5], [TIPS], baseFeePerGas=fees) for fees in (None, [], ["0x64"] * 3, [100, 100], {"0": "0x64"})),
        *(history([0.5], [TIPS], baseFeePerGas=["0x64", fee]) for fee in (None, "0x1" + "0" * 64)),
        history([0.5] * 3, [TIPS] * 3, baseFeePerGas=["0x64"] * 2),
        history([0.5], [TIPS] * 2),
        history([0.5], [TIPS[:6]]),
        *(history([0.5], [], reward=[row]) for row in (None, "0123456", TIPS, dict.fromkeys("abcdefg", "0x1"))),
        # Only a percentile that is not used is missing: still no whole answer.
        history([0.5], [], reward=[["0x1"] * 6 + [None]]),
        *(history([0.5], [], reward=reward) for reward in (5, {"0": ["0x1"] * 7})),
        # Among them, as a fraction, a number that no machine has room for.
        *(history([ratio], [TIPS]) for ratio in ("0.5", "1/0", "1e999999999", None, True, [0.5])),
        without("baseFeePerGas"),
        without("gasUsedRatio"),
    ],
)
def test_a_broken_history_is_insufficient_data(answer: Any) -> None:
    with pytest.raises(InsufficientData) as raised:
        fee_history.readings(local_network())["history"].read([answer])
    assert str(raised.value) == NO_HISTORY["error"]["description"]


@pytest.mark.parametrize("answer", [None, 105, "0x1" + "0" * 64, ChainError(-32601, "no")])
def test_a_price_that_the_node_does_not_report_is_insufficient_data(answer: Any) -> None:
    with pytest.raises(InsufficientData) as raised:
        fee_history.price_reading("eth_gasPrice", "gas price").read([answer])
    assert str(raised.value) == "The node did not report its gas price."


@pytest.mark.parametrize(
    ("base_fee", "gas_used", "gas_limit", "expected"),
    [
        (10**9, 10_000_000, 20_000_000, 10**9),
        (10**9, 9_000_000, 20_000_000, 987_500_000),
        (10**9, 11_000_000, 20_000_000, 1_012_500_000),
        (10**9, 20_000_000, 20_000_000, 1_125_000_000),
        # It rises by one wei at least, from zero too, and falls by as little as nothing.
        (0, 20_000_000, 20_000_000, 1),
        (7, 10_000_001, 20_000_000, 8),
        (7, 9_999_999, 20_000_000, 7),
        # Of an odd limit, the target is the half rounded down.
        (800, 3, 3, 800 + 800 * 2 // 8),
        (MAX, 2, 2, MAX + MAX // 8),
    ],
)
def test_the_base_fee_follows_a_block_by_eip_1559(base_fee: int, gas_used: int, gas_limit: int, expected: int) -> None:
    assert by_eip_1559(base_fee, gas_used, gas_limit) == expected


@pytest.mark.parametrize(
    ("rule", "has_next", "asked", "expected"),
    [
        (BaseFeeRule.EIP_1559, True, None, (300, BaseFeeSource.FEE_HISTORY)),
        (BaseFeeRule.EIP_1559, False, None, (100, BaseFeeSource.COMPUTED)),
        (BaseFeeRule.LAST_BLOCK, True, None, (300, BaseFeeSource.FEE_HISTORY)),
        (BaseFeeRule.LAST_BLOCK, False, None, (300, BaseFeeSource.LAST_BLOCK)),
        (BaseFeeRule.ETH_BASE_FEE, True, 101, (101, BaseFeeSource.ETH_BASE_FEE)),
        (BaseFeeRule.ETH_BASE_FEE, False, 0, (0, BaseFeeSource.ETH_BASE_FEE)),
    ],
)
def test_the_next_base_fee_comes_from_the_best_that_there_is(
    rule: BaseFeeRule, has_next: bool, asked: int | None, expected: tuple[int, BaseFeeSource]
) -> None:
    told = FeeHistory(base_fee=300, has_next=has_next, percentile=40, rewards=())
    assert next_base_fee(local_network(base_fee_rule=rule), told, HALF_FULL, asked) == expected


@pytest.mark.parametrize(
    "head", [Head(7, 0, gas_used=1, gas_limit=2), Head(7, 0, 0, 0, base_fee=1), Head(7, 0, 0, 1, base_fee=1)]
)
def test_a_base_fee_is_not_computed_from_an_incomplete_head_block(head: Head) -> None:
    told = FeeHistory(base_fee=300, has_next=False, percentile=40, rewards=())
    with pytest.raises(InsufficientData) as raised:
        next_base_fee(local_network(), told, head, None)
    assert str(raised.value) == "The node reported neither the next base fee nor the values to compute it."


def test_the_market_is_of_a_speed_or_by_fullness() -> None:
    found = {"history": read_history(history([0.6], [TIPS])), "head": HALF_FULL}
    markets = [fee_history.market(local_network(), found, speed) for speed in (None, *SPEEDS)]
    assert markets == [Market(200, BaseFeeSource.FEE_HISTORY, tip) for tip in (50, 30, 50, 75, 90)]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("rule", "answers", "base_fee", "source"),
    [
        ("eip-1559", {"eth_feeHistory": WITHOUT_NEXT, "eth_getBlockByNumber": FULL}, 112, "eip-1559"),
        ("eth_baseFee", {"eth_feeHistory": WITHOUT_NEXT, "eth_getBlockByNumber": FULL}, 101, "eth_baseFee"),
        ("last-block", {}, 100, "eth_feeHistory"),
    ],
)
def test_a_quote_says_where_the_next_base_fee_comes_from(
    change_network: ChangeNetwork, exact: None, rule: str, answers: dict[str, Any], base_fee: int, source: str
) -> None:
    change_network(base_fee_rule=rule)
    with node_answering(**{method: {"result": answer} for method, answer in answers.items()}) as node:
        price = {"expected": str(base_fee + 5), "maximum": str(base_fee + 5)}
        told = {"base_fee": str(base_fee), "base_fee_source": source, "priority_fee": "5"}
        assert quote(relayer_at(node.url))["result"]["gas_price"] == told | price


@pytest.mark.django_db
def test_what_a_network_and_its_node_say_of_tips_decides_the_offer(change_network: ChangeNetwork, exact: None) -> None:
    change_network(reports_fullness=False)
    tips = []
    answers: list[dict[str, Any]] = [{"gasUsedRatio": ["full"]}, {"reward": None}]
    for number, changes in enumerate(answers):
        with node_answering(eth_feeHistory={"result": HISTORY | changes}) as node:
            relayer = relayer_at(node.url, identifier=f"relayer-{number}")
            tips.append(quote(relayer)["result"]["gas_price"]["priority_fee"])
    assert tips == ["6", "0"]


@pytest.mark.django_db
def test_the_next_base_fee_is_asked_for_only_where_the_network_has_a_method_for_it(
    change_network: ChangeNetwork,
) -> None:
    with node_answering() as node:
        ask(relayer_at(node.url))
        change_network(base_fee_rule="eth_baseFee")
        ask(relayer_at(node.url, identifier="relayer-2"))
    assert [methods.count("eth_baseFee") for methods in node.methods] == [0, 1]


@pytest.mark.django_db
def test_a_missing_history_is_reported_with_a_remedy() -> None:
    with node_answering(eth_feeHistory={"error": {"code": -32601, "message": "no such thing"}}) as node:
        assert ask(relayer_at(node.url)) == NO_HISTORY
        other = relayer_at(node.url, identifier="relayer-2", policies={"eip1559_pricing": False})
        # 21,000 gas at a price of 105 wei.
        assert ask(other) == fee("0.000000000002205")


@pytest.mark.django_db
def test_a_network_without_a_base_fee_is_asked_for_one_price(change_network: ChangeNetwork) -> None:
    change_network(base_fee_rule="none")
    with node_answering() as node:
        assert ask(relayer_at(node.url)) == fee("0.000000000002205")
    assert node.methods == [["eth_chainId", "eth_estimateGas", "eth_gasPrice", "eth_getBlockByNumber"]]
