"""A price from the reserves of a pair."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from eth_abi.abi import encode

from chain.nodes.answers import ChainError
from chain.nodes.attempts import Call
from rpc.fees.sources.base import NoPrice, SourcePrice
from rpc.fees.sources.uniswap_v2 import UniswapV2
from rpc.models import FeeToken, PriceSource
from tests.chain.answering_node import local_network
from tests.chain.fixtures import Deployed
from tests.chain.hardhat import Chain
from tests.rpc.estimates import ask, failure, relayer_at
from tests.rpc.factories import PAIR, TOKEN, WRAPPED, fee_token, fixed_source, pair_source

NOW = 1_767_268_800
REVERTED = ChainError(3, "execution reverted", "0x")
STRANGER = "0x6666666666666666666666666666666666666666"


def source(least: str = "0", **network: Any) -> UniswapV2:
    row = PriceSource(kind=PriceSource.Kind.UNISWAP_V2, pair=PAIR, wrapped_native=WRAPPED, min_liquidity_text=least)
    return UniswapV2.from_row(row, FeeToken(address=TOKEN), local_network(**network))


def address(text: str) -> str:
    return "0x" + encode(["address"], [text]).hex()


def reserves(first: int, second: int) -> str:
    return "0x" + encode(["uint112", "uint112", "uint32"], [first, second, 7]).hex()


def price(first: int, second: int, decimals: int = 6, *, swapped: bool = False, least: str = "0") -> Fraction:
    """Return the rate where the pair holds so much of the token and so much of the wrapped coin."""
    answers = [address(TOKEN), address(WRAPPED), reserves(first, second)]
    if swapped:
        answers = [address(WRAPPED), address(TOKEN), reserves(second, first)]
    return source(least).price(answers, decimals, NOW).rate


def reason(answers: list[Any], least: str = "0") -> str:
    with pytest.raises(NoPrice) as raised:
        source(least).price(answers, 6, NOW)
    return str(raised.value)


def test_a_pair_is_asked_for_its_tokens_and_reserves() -> None:
    assert source().calls() == [
        Call("eth_call", [{"to": PAIR, "data": "0x0dfe1681"}, "latest"]),
        Call("eth_call", [{"to": PAIR, "data": "0xd21220a7"}, "latest"]),
        Call("eth_call", [{"to": PAIR, "data": "0x0902f1ac"}, "latest"]),
    ]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("token", "native", "decimals", "rate"),
    [
        (2_481_937_500_000, 1_000 * 10**18, 6, Fraction(39_711, 16)),
        (1, 3, 30, Fraction(1, 3 * 10**12)),
        (2**112 - 1, 1, 18, Fraction(2**112 - 1)),
    ],
)
def test_the_rate_is_that_of_the_reserves_in_either_order(
    token: int, native: int, decimals: int, rate: Fraction, swapped: bool
) -> None:
    assert price(token, native, decimals, swapped=swapped) == rate


@pytest.mark.parametrize(("block_seconds", "fresh"), [(0.25, 1), (1.5, 2)])
def test_a_pairs_price_is_of_now_and_fresh_for_a_block(block_seconds: float, fresh: int) -> None:
    answers = [address(TOKEN), address(WRAPPED), reserves(3 * 10**6, 10**18)]
    found = source(block_seconds=block_seconds).price(answers, 6, NOW)
    assert found == SourcePrice("Uniswap v2 pair", Fraction(3), NOW, NOW + fresh)


def test_a_coin_of_other_decimals_is_counted_by_them() -> None:
    answers = [address(TOKEN), address(WRAPPED), reserves(3 * 10**6, 10**8)]
    assert source(decimals=8).price(answers, 6, NOW).rate == 3


@pytest.mark.parametrize("swapped", [False, True])
def test_a_pair_counts_from_its_least_liquidity_of_the_native_coin(swapped: bool) -> None:
    assert price(2 * 10**30, 10**18, 18, swapped=swapped, least=str(10**18)) == 2 * 10**12
    with pytest.raises(NoPrice, match=r"^holds less than its minimum liquidity$"):
        price(2 * 10**30, 10**18 - 1, 18, swapped=swapped, least=str(10**18))


@pytest.mark.parametrize(("token", "native"), [(0, 1), (1, 0)])
def test_a_pair_without_reserves_has_no_price_even_without_a_minimum(token: int, native: int) -> None:
    answers = [address(TOKEN), address(WRAPPED), reserves(token, native)]
    assert reason(answers) == "holds less than its minimum liquidity"


@pytest.mark.parametrize("tokens", [(TOKEN, STRANGER), (STRANGER, WRAPPED), (TOKEN, TOKEN), (WRAPPED, WRAPPED)])
def test_another_pair_has_no_price(tokens: tuple[str, str]) -> None:
    answers = [*map(address, tokens), reserves(10**18, 10**18)]
    assert reason(answers) == "is not a pair of the token and the wrapped native coin"


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("answer", ["0x", "0xzz", None, REVERTED, "0x" + "ff" * 96, "0x" + "00" * 31])
def test_garbage_is_no_answer(place: int, answer: Any) -> None:
    answers: list[Any] = [address(TOKEN), address(WRAPPED), reserves(10**18, 10**18)]
    answers[place] = answer
    assert reason(answers) == "did not answer"


@pytest.mark.django_db
def test_a_fee_is_quoted_at_the_rate_of_a_real_pair(chain: Chain, deployed: Deployed) -> None:
    relayer = relayer_at(chain.url)
    token = fee_token(address=deployed.token_6)
    # 2,481,937.5 tokens and 1,000 coins.
    pair_source(token, deployed.pair, deployed.wrapped, min_liquidity=1_000 * 10**18)
    fixed_source(token, "2500")
    # Half way between both.
    assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2490.96875"
    chain.send(deployed.pair, "set(uint112,uint112,uint32)", 2_481_937_500_000, 1_000 * 10**18 - 1, 0)
    nothing = "holds less than its minimum liquidity"
    other = relayer_at(f"{chain.url}/", identifier="relayer-2")
    assert ask(other, "USDC") == failure(
        -32002, "Price unavailable", f"USDC on hardhat: the source “Uniswap v2 pair” {nothing}."
    )
