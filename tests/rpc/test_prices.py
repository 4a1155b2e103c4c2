"""The price of a token: what its sources agree on, kept for about a block, and never guessed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from chain.networks import networks
from chain.readings import ChainReading, gather
from rpc.errors import PriceUnavailable
from rpc.fees.prices import agreed_rate, price_reading
from rpc.fees.tokens import Token
from rpc.models import FeeToken, PriceSource
from tests.chain import faults
from tests.chain.answering_node import ChangeNetwork, change_network, local_network
from tests.chain.fixtures import Deployed
from tests.chain.hardhat import Chain
from tests.rpc.estimates import ask, failure, relayer_at
from tests.rpc.factories import TOKEN, chainlink_native_source, fee_token, fixed_source, pair_source

__all__ = ["change_network"]


def agreed(*rates: Fraction | int, bound: int = 200) -> Fraction:
    token = Token(1, "hardhat", "USDC", TOKEN, max_spread_bps=bound)
    return agreed_rate(token, [Fraction(rate) for rate in rates])


@pytest.mark.parametrize(
    ("rates", "rate"),
    [
        ([Fraction(1, 10**18)], Fraction(1, 10**18)),
        ([3_001, 3_000], Fraction(6_001, 2)),
        ([3_050, 3_000, 3_001], Fraction(3_001)),
        ([3_060, 3_001, 3_000, 3_002], Fraction(6_003, 2)),
    ],
)
def test_the_rate_is_the_median_of_the_sources(rates: list[Any], rate: Fraction) -> None:
    assert agreed(*rates) == rate


@pytest.mark.parametrize(("rates", "bound"), [([10_000, 10_100, 10_200], 200), ([7, 7], 0), ([1, 2], 10_000)])
def test_sources_may_differ_by_the_bound(rates: list[Any], bound: int) -> None:
    assert min(rates) <= agreed(*rates, bound=bound) <= max(rates)


@pytest.mark.parametrize(
    ("rates", "bound"),
    [
        ([10_000, Fraction(10_200) + Fraction(1, 10**30)], 200),
        ([10_201, 10_000, 10_000, 10_000], 200),
        ([7, Fraction(7) + Fraction(1, 10**30)], 0),
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
    with pytest.raises(PriceUnavailable, match=r"^USDC on hardhat: it has no price source.$"):
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
def test_a_change_of_a_source_counts_at_once_although_the_old_price_is_kept(
    chain: Chain, deployed: Deployed, change_network: ChangeNetwork
) -> None:
    # A long block, so that only the change can be why a price is read anew.
    change_network(block_seconds=600)
    # So that the head block is of now.
    chain.mine()
    token = fee_token(address=deployed.token_6)
    pair = pair_source(token, deployed.pair, deployed.wrapped)
    fixed = fixed_source(token, "2481.9375")
    with faults.node(faults.good, chain.url) as node:
        relayer = relayer_at(node.url)
        assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2481.9375"
        PriceSource.objects.filter(pk=pair.pk).update(min_liquidity_text=str(10**30))
        assert ask(relayer, "USDC")["error"]["code"] == -32002
        PriceSource.objects.filter(pk=pair.pk).update(min_liquidity_text="1")
        assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2481.9375"
        PriceSource.objects.filter(pk=fixed.pk).update(rate_text="2500")
        assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2490.96875"
        other = fixed_source(token, "2500")
        assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2500"
        other.delete()
        assert ask(relayer, "USDC")["result"]["conversion_rate"] == "2490.96875"
        FeeToken.objects.filter(pk=token.pk).update(max_spread_bps=0)
        assert ask(relayer, "USDC")["error"]["description"] == (
            "USDC on hardhat: its sources differ by more than 0 basis points."
        )


@pytest.mark.django_db
def test_pairs_alone_are_no_price_however_many(chain: Chain, deployed: Deployed) -> None:
    token = fee_token(address=deployed.token_6)
    for _ in range(2):
        pair_source(token, deployed.pair, deployed.wrapped)
    relayer = relayer_at(chain.url)
    assert ask(relayer, "USDC") == failure(
        -32002,
        "Price unavailable",
        "USDC on hardhat: pairs alone cannot set a price: add a source of another kind.",
    )
    chainlink_native_source(token, deployed.token_native)
    assert "result" in ask(relayer, "USDC")


def readings(*made: FeeToken) -> dict[str, ChainReading]:
    network = local_network()
    return {token.symbol: price_reading(Token.from_row(token, [*token.sources.all()], network)) for token in made}


@pytest.mark.django_db
def test_prices_are_read_in_one_batch_and_a_failed_one_becomes_an_error(
    chain: Chain, deployed: Deployed, caplog: pytest.LogCaptureFixture
) -> None:
    good, stale, broken, pair = (
        fee_token(symbol=symbol, address=address)
        for symbol, address in [
            ("GOOD", deployed.token_18),
            ("SILENT", deployed.token_6),
            ("BROKEN", deployed.token_0),
            ("PAIR", deployed.token_8),
        ]
    )
    chainlink_native_source(good, deployed.token_native)
    chainlink_native_source(stale, deployed.misbehaving)
    # No form takes this rate.
    PriceSource.objects.filter(pk=fixed_source(broken).pk).update(rate_text="s3cret")
    pair_source(pair)
    with faults.node(faults.good, chain.url) as node:
        found = gather([(node.url, 100)], local_network(), readings(good, stale, broken, pair))
        assert len(node.requests) == 1
    quote, silent, internal, alone = (found[name] for name in ("GOOD", "SILENT", "BROKEN", "PAIR"))
    assert (quote.rate, quote.decimals) == (Fraction(10**18, 402_951_121_654_151), 18)
    assert [error.body()["code"] for error in (silent, internal, alone)] == [-32002, -32603, -32002]
    assert silent.description == (
        "SILENT on hardhat: the source “Chainlink, token/native” did not answer: the token's feed."
    )
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "Cannot read the price of BROKEN on hardhat"
    ]


@pytest.mark.django_db
def test_a_price_is_cached_and_a_reason_is_not(
    chain: Chain, deployed: Deployed, change_network: ChangeNetwork
) -> None:
    change_network(block_seconds=600)
    # So that the head block is of now.
    chain.mine()
    token = fee_token(address=deployed.token_18, decimals=18)
    source = chainlink_native_source(token, deployed.token_native)
    with faults.node(faults.good, chain.url) as node:
        at = [(node.url, 100)], networks()["hardhat"]
        chain.set_feed(deployed.token_native, 0, decimals=18)
        assert isinstance(gather(*at, readings(token))["USDC"], PriceUnavailable)
        chain.set_feed(deployed.token_native, 10**15, decimals=18)
        quote = gather(*at, readings(token))["USDC"]
        assert quote.rate == 1_000
        asked = len(node.requests)
        assert gather(*at, readings(token))["USDC"] is quote
        assert len(node.requests) == asked
        # Other bounds are another source: what was cached no longer counts.
        bounds = {"chain_id": 31337, "aggregator": TOKEN, "minimum": "1", "maximum": str(10**15), "read_at": 0}
        PriceSource.objects.filter(pk=source.pk).update(feed_bounds={deployed.token_native: bounds})
        assert gather(*at, readings(token))["USDC"].description == (
            "USDC on hardhat: the source “Chainlink, token/native” is at the limit of its aggregator, which "
            "reports no price beyond it: the token's feed."
        )


def decimals_calls(node: faults.NodeServer) -> int:
    """Count how often a contract was asked for its decimals."""
    batches = [asked if isinstance(asked, list) else [asked] for asked in node.requests]
    calls = [call["params"][0]["data"] for batch in batches for call in batch if call["method"] == "eth_call"]
    return calls.count("0x313ce567")


@pytest.mark.django_db
def test_decimals_are_read_once_and_kept(chain: Chain, deployed: Deployed) -> None:
    token = fee_token(address=deployed.token_30)
    fixed_source(token, "1")
    with faults.node(faults.good, chain.url) as node:
        relayer = relayer_at(node.url, policies={"gas_limit_estimation": False})
        fees = [ask(relayer, "USDC") for _ in range(3)]
        token.refresh_from_db()
        assert (token.decimals, decimals_calls(node)) == (30, 1)
        assert fees == fees[:1] * 3
