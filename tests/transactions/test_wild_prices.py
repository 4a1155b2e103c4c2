"""Nodes that report wild tips and prices: what is paid is bounded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from chain.networks import Network
from relayers.models import Relayer
from tests.chain.answering_node import HISTORY, node_answering
from tests.relayers import factories as relayers
from tests.transactions import factories
from tests.transactions.hardhat import GWEI, RECEIVER, LocalChain
from tests.transactions.lane_values import ADDRESS, market, network, sender_of
from tests.transactions.lies import raise_tips
from tests.transactions.lying_node import lying_node
from tests.transactions.single_turns import take_turn
from transactions.lanes import leasing
from transactions.lanes.prices.market import Sender, read_market
from transactions.models import Lane
from transactions.requests import actions

# Up to 10 gwei are believed at once, and 100 at most.
NETWORK = network("hardhat", max_priority_fee=100 * GWEI)
WITHOUT_BASE_FEE = network("hardhat", base_fee_rule="none", max_gas_price=100 * GWEI)


def tip_of(nodes: list[tuple[str, int]], network: Network = NETWORK, **policies: Any) -> int:
    """Read the market from nodes, and return the tip or the single price."""
    read, _ = read_market(Sender(network, policies, ADDRESS, nodes))
    price = read.price("fast")
    return price.tip if price.gas_price is None else price.gas_price


@pytest.fixture
def nodes() -> Iterator[Any]:
    """Start nodes that report these tips or prices, each in gwei; the first one is asked first."""
    with ExitStack() as stack:

        def start(*tips: int) -> list[tuple[str, int]]:
            urls = []
            for position, tip in enumerate(tips):
                history = {"result": HISTORY | {"reward": [[hex(tip * GWEI)] * 7]}}
                price = {"result": hex(tip * GWEI)}
                served = stack.enter_context(node_answering(eth_feeHistory=history, eth_gasPrice=price))
                urls.append((served.url, 1 if position else 10**9))
            return urls

        yield start


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let it be so many minutes later."""
    start = 60 * (time.monotonic() // 60 + 1)

    def at(minutes: float) -> None:
        monkeypatch.setattr(time, "monotonic", lambda: start + 60 * minutes)

    return at


@pytest.mark.parametrize(
    ("tips", "believed"),
    [
        ((9,), 9),
        ((900,), 10),
        ((900, 9), 10),
        # What two nodes report is believed, up to the maximum of the network.
        ((30, 30), 30),
        ((900, 900), 100),
        ((900, 40, 20), 40),
    ],
)
@pytest.mark.parametrize("network", [NETWORK, WITHOUT_BASE_FEE], ids=["tip", "price"])
def test_a_wild_tip_is_believed_only_as_far_as_a_second_node_has_it(
    nodes: Any, tips: tuple[int, ...], believed: int, network: Network
) -> None:
    assert tip_of(nodes(*tips), network) == believed * GWEI


def test_tips_of_one_node_rise_fourfold_in_a_minute(nodes: Any, minutes: Any) -> None:
    asked, found = nodes(900), []
    for minute in (0, 0.5, 1, 1.5, 2, 3, 30):
        minutes(minute)
        found.append(tip_of(asked) // GWEI)
    assert found == [10, 10, 40, 40, 100, 100, 10]


def test_a_price_with_the_base_fee_raises_no_tip(nodes: Any, minutes: Any) -> None:
    asked = nodes(900)
    minutes(0)
    assert tip_of(asked, eip1559_pricing=False) == 900 * GWEI
    minutes(1)
    assert tip_of(asked) == 10 * GWEI


@pytest.mark.django_db
def test_prices_of_requests_bumps_and_no_ops_are_bounded(
    local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All within the same minute.
    monkeypatch.setattr("transactions.lanes.prices.market.time", SimpleNamespace(monotonic=lambda: 0.0))
    local_chain.set_next_base_fee(GWEI)
    local_chain.mine()
    with lying_node(local_chain.url) as node:
        relayer: Relayer = relayers.relayer(network="hardhat", rpc_urls=[{"url": node.url, "weight": 100}])
        node.lie("eth_feeHistory", raise_tips(900 * GWEI))
        lane: Lane | None = leasing.claim(factories.lane(relayer).pk)
        assert lane is not None
        row, other = (factories.transaction(lane, to=RECEIVER, value_text="1") for _ in range(2))
        take_turn(lane)
        actions.cancel(row.pk, by="ops")
        actions.speed_up(other.pk, {}, by="ops")
        take_turn(lane)
    tips = [int(each.max_priority_fee_text) for each in (*row.attempts.all(), *other.attempts.all())]
    # A tenth of the maximum tip of the network, and an eighth more for what replaces it.
    assert tips == [100 * GWEI, 112_500_000_000] * 2


def test_a_wild_base_fee_is_bounded_where_a_single_price_is_paid() -> None:
    sender = sender_of(policies={"eip1559_pricing": False})
    price = market(sender, 9_000 * GWEI, gas_price=20 * GWEI, tip_limit=50 * GWEI).price("safeLow")
    assert price.offer(is_legacy=True).gas_price == 50 * GWEI + price.tip
