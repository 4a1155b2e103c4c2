"""Chainlink's feeds on a real node, through an estimate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.chain.answering_node import RECEIVER, ChangeNetwork, change_network
from tests.chain.fixtures import Deployed
from tests.chain.hardhat import Chain
from tests.rpc.estimates import ask, failure, relayer_at
from tests.rpc.factories import chainlink_native_source, chainlink_usd_source, fee_token

__all__ = ["change_network"]

pytestmark = pytest.mark.django_db

USD = "Chainlink, token/USD with native/USD"
NATIVE = "Chainlink, token/native"
HOUR = 3_600

# 2481.9375 / 1.0001 and 1 / 0.000402951121654151, to 40 digits.
USD_RATE = "2481.689331066893310668933106689331066893"
NATIVE_RATE = "2481.690573027589691116479549306090120896"

Change = Callable[[Chain, Deployed], None]


def unavailable(source: str, why: str) -> dict[str, Any]:
    return failure(-32002, "Price unavailable", f"USDC on hardhat: the source “{source}” {why}.")


def set_feed(name: str, answer: int, **changes: int) -> Change:
    return lambda chain, deployed: chain.set_feed(getattr(deployed, name), answer, **changes)


def test_a_fee_is_quoted_at_the_rate_of_two_feeds(chain: Chain, deployed: Deployed) -> None:
    chainlink_usd_source(fee_token(address=deployed.token_6), deployed.token_usd, deployed.native_usd)
    assert ask(relayer_at(chain.url), "USDC")["result"]["conversion_rate"] == USD_RATE


def test_a_fee_is_quoted_at_the_rate_of_one_feed(chain: Chain, deployed: Deployed) -> None:
    chainlink_native_source(fee_token(address=deployed.token_18), deployed.token_native)
    assert ask(relayer_at(chain.url), "USDC")["result"]["conversion_rate"] == NATIVE_RATE


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (set_feed("token_usd", 0), "reports a price that is not above zero: the token's feed"),
        (set_feed("native_usd", -1), "reports a price that is not above zero: the native coin's feed"),
        (set_feed("token_usd", 1, updated_at=0), "has not finished its round: the token's feed"),
        (set_feed("token_usd", 1, answered_in_round=6), "has not finished its round: the token's feed"),
        (set_feed("token_usd", 1, decimals=200), "has too many decimals: the token's feed"),
        (
            set_feed("token_usd", 1, age=2 * HOUR + 725),
            "is stale: the token's feed is older than its heartbeat",
        ),
        (
            set_feed("native_usd", 1, age=HOUR + 365),
            "is stale: the native coin's feed is older than its heartbeat",
        ),
        (set_feed("sequencer", 1, age=86_400), "cannot be trusted: the network's sequencer is down"),
        (
            set_feed("sequencer", 0, age=HOUR - 60),
            "cannot be trusted yet: the network's sequencer was down recently",
        ),
    ],
)
def test_feeds_that_do_not_count_give_no_fee(chain: Chain, deployed: Deployed, change: Change, why: str) -> None:
    chainlink_usd_source(
        fee_token(address=deployed.token_6),
        deployed.token_usd,
        deployed.native_usd,
        heartbeat_seconds=2 * HOUR,
        native_heartbeat_seconds=HOUR,
        sequencer_feed=deployed.sequencer,
    )
    # Each feed a little younger than its heartbeat and the grace of a tenth: it counts.
    chain.set_feed(deployed.token_usd, 100_010_000, age=2 * HOUR + 660)
    chain.set_feed(deployed.native_usd, 248_193_750_000, age=HOUR + 300)
    relayer = relayer_at(chain.url)
    assert ask(relayer, "USDC")["result"]["conversion_rate"] == USD_RATE
    change(chain, deployed)
    # Another node as far as the service knows, so that nothing that was kept counts.
    assert ask(relayer_at(f"{chain.url}/", identifier="relayer-2"), "USDC") == unavailable(USD, why)


def test_the_networks_sequencer_feed_counts_where_the_source_has_none(
    chain: Chain, deployed: Deployed, change_network: ChangeNetwork
) -> None:
    change_network(sequencer_feed=deployed.sequencer)
    chain.set_feed(deployed.sequencer, 1)
    chainlink_native_source(fee_token(address=deployed.token_18), deployed.token_native)
    down = "cannot be trusted: the network's sequencer is down"
    assert ask(relayer_at(chain.url), "USDC") == unavailable(NATIVE, down)


@pytest.mark.parametrize("address", [RECEIVER, "misbehaving"])
def test_a_feed_that_is_none_does_not_answer(chain: Chain, deployed: Deployed, address: str) -> None:
    """One has no code and answers nothing, the other reverts."""
    chainlink_native_source(fee_token(address=deployed.token_18), getattr(deployed, address, address))
    assert ask(relayer_at(chain.url), "USDC") == unavailable(NATIVE, "did not answer: the token's feed")


def test_a_sequencer_feed_that_is_none_does_not_answer(chain: Chain, deployed: Deployed) -> None:
    chainlink_native_source(
        fee_token(address=deployed.token_18), deployed.token_native, sequencer_feed=deployed.misbehaving
    )
    silent = "cannot be trusted: the sequencer's feed did not answer"
    assert ask(relayer_at(chain.url), "USDC") == unavailable(NATIVE, silent)
