"""The price of a token: what its sources agree on, kept for about a block, and never guessed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from rpc.errors import PriceUnavailable
from rpc.fees.prices import agreed_rate
from rpc.fees.tokens import Token
from rpc.models import FeeToken, PriceSource
from tests.relayers import faults
from tests.rpc.chain import Chain
from tests.rpc.conftest import Deployed
from tests.rpc.estimates import ChangeNetwork, ask, change_network, failure, relayer_at
from tests.rpc.factories import TOKEN, chainlink_native_source, fee_token, fixed_source, pair_source

__all__ = ["change_network"]


def agreed(*rates: Fraction | int, bound: int = 200) -> Fraction:
    token = Token(1, "hardhat", "USDC", TOKEN, max_spread_bps=bound)
    return agreed_rate(token, [Fraction(rate) for rate in rates])


@pytest.mark.parametrize(
    ("rates", "rate"),
    [
        ([3_000], Fraction(3_000)),
        ([3_000, 3_001], Fraction(6_001, 2)),
        ([3_001, 3_000], Fraction(6_001, 2)),
        ([3_050, 3_000, 3_001], Fraction(3_001)),
        ([3_060, 3_001, 3_000, 3_002], Fraction(6_003, 2)),
        ([Fraction(1, 3), Fraction(1, 3)], Fraction(1, 3)),
        ([Fraction(1, 10**18)], Fraction(1, 10**18)),
    ],
)
def test_the_rate_is_the_median_of_the_sources(rates: list[Any], rate: Fraction) -> None:
    assert agreed(*rates) == rate


@pytest.mark.parametrize(
    ("rates", "bound"),
    [
        ([10_000, 10_200], 200),
        ([10_000, 10_100, 10_200], 200),
        ([Fraction(1, 3), Fraction(1, 3) * Fraction(10_200, 10_000)], 200),
        ([7, 7], 0),
        ([1, 2], 10_000),
    ],
)
def test_sources_may_differ_by_the_bound(rates: list[Any], bound: int) -> None:
    assert min(rates) <= agreed(*rates, bound=bound) <= max(rates)


@pytest.mark.parametrize(
    ("rates", "bound"),
    [
        ([10_000, 10_201], 200),
        ([10_000, Fraction(10_200) + Fraction(1, 10**30)], 200),
        ([10_201, 10_000, 10_000, 10_000], 200),
        ([7, Fraction(7) + Fraction(1, 10**30)], 0),
        ([1, Fraction(2) + Fraction(1, 10**30)], 10_000),
    ],
)
def test_sources_that_differ_by_more_give_no_price(rates: list[Any], bound: int) -> None:
    with pytest.raises(PriceUnavailable) as raised:
        agreed(*rates, bound=bound)
    assert raised.value.body() == {
        "code": -32002,
        "message": "Price unavailable",
        "description": f"USDC on hardhat: its sources differ by more than {bound} basis points.",
    }


def test_no_source_is_no_price() -> None:
    with pytest.raises(PriceUnavailable, match=r"^USDC on hardhat: no source of its price is set.$"):
        agreed()


@pytest.mark.django_db
def test_the_sources_of_a_real_node_and_of_staff_are_put_together(chain: Chain, deployed: Deployed) -> None:
    token = fee_token(address=deployed.token_6)
    pair_source(token, deployed.pair, deployed.wrapped)
    fixed_source(token, "2500")
    relayer = relayer_at(chain.url)
    # 2481.9375 and 2500.
    assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2490.96875"
    # Of three, the middle one: 1 / 0.000402951121654151 is below both.
    chainlink_native_source(token, deployed.token_native)
    assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2481.9375"
    fixed_source(token, "2490")
    assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2485.96875"


@pytest.mark.django_db
def test_one_failing_source_of_several_is_told_and_the_others_do_not_count(chain: Chain, deployed: Deployed) -> None:
    token = fee_token(address=deployed.token_6)
    fixed_source(token, "2500")
    chainlink_native_source(token, deployed.misbehaving)
    fixed_source(token, "2500")
    assert ask(relayer_at(chain.url), "USDC") == failure(
        -32002,
        "Price unavailable",
        "USDC on hardhat: the source “Chainlink, token/native” does not answer: the token's feed.",
    )


@pytest.mark.django_db
def test_a_change_of_a_source_counts_at_once_although_the_old_price_is_kept(
    chain: Chain, deployed: Deployed, change_network: ChangeNetwork
) -> None:
    # A long block, so that only the change can be why a price is read anew.
    change_network(block_seconds=15)
    token = fee_token(address=deployed.token_6)
    pair = pair_source(token, deployed.pair, deployed.wrapped)
    with faults.node(faults.good, chain.url) as node:
        relayer = relayer_at(node.url)
        assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2481.9375"
        PriceSource.objects.filter(pk=pair.pk).update(min_liquidity_text=str(10**30))
        assert ask(relayer, "USDC")["error"]["code"] == -32002
        PriceSource.objects.filter(pk=pair.pk).update(min_liquidity_text="1")
        assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2481.9375"
        fixed = fixed_source(token, "2500")
        assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2490.96875"
        PriceSource.objects.filter(pk=fixed.pk).update(rate_text="2481.9375")
        assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2481.9375"
        PriceSource.objects.filter(pk=fixed.pk).update(rate_text="2500")
        FeeToken.objects.filter(pk=token.pk).update(max_spread_bps=0)
        assert ask(relayer, "USDC")["error"]["description"] == (
            "USDC on hardhat: its sources differ by more than 0 basis points."
        )


@pytest.mark.django_db
def test_the_price_of_a_block_is_kept(chain: Chain, deployed: Deployed, change_network: ChangeNetwork) -> None:
    change_network(block_seconds=15)
    pair_source(fee_token(address=deployed.token_6), deployed.pair, deployed.wrapped)
    relayer = relayer_at(chain.url)
    assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2481.9375"
    chain.send(deployed.pair, "set(uint112,uint112,uint32)", 3_000 * 10**6, 10**18, 0)
    assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2481.9375"


def decimals_calls(node: faults.NodeServer) -> int:
    """Count how often a contract was asked for its decimals."""
    batches = [asked if isinstance(asked, list) else [asked] for asked in node.requests]
    calls = [call["params"][0]["data"] for batch in batches for call in batch if call["method"] == "eth_call"]
    return calls.count("0x313ce567")


@pytest.mark.django_db
@pytest.mark.parametrize(("name", "decimals"), [("token_0", 0), ("token_6", 6), ("token_30", 30)])
def test_decimals_are_read_once_and_kept(chain: Chain, deployed: Deployed, name: str, decimals: int) -> None:
    token = fee_token(address=getattr(deployed, name))
    fixed_source(token, "1")
    with faults.node(faults.good, chain.url) as node:
        relayer = relayer_at(node.url, policies={"gas_limit_estimation": False})
        fees = [ask(relayer, "USDC") for _ in range(3)]
        token.refresh_from_db()
        assert (token.decimals, decimals_calls(node)) == (decimals, 1)
        assert fees == fees[:1] * 3


@pytest.mark.django_db
def test_a_token_that_does_not_tell_its_decimals_is_insufficient_data(chain: Chain, deployed: Deployed) -> None:
    token = fee_token(address=deployed.misbehaving)
    fixed_source(token, "1")
    assert ask(relayer_at(chain.url), "USDC") == failure(
        -32005, "Insufficient data", "The token's contract does not tell its decimals."
    )
    token.refresh_from_db()
    assert token.decimals is None
