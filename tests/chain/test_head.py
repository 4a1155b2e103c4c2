"""The head block of a node: how old it may be, and what becomes of a node that is behind."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.core.cache import cache

from chain.networks import networks
from chain.nodes import breakers, head
from chain.nodes.answers import ChainError, Fault
from chain.nodes.head import Head
from chain.nodes.plausibility import MAX_TIMESTAMP
from tests.chain.answering_node import HEAD, ChangeNetwork, change_network, local_network, node_answering
from tests.rpc.estimates import ask, failure, fee, quote, relayer_at

__all__ = ["change_network"]

NOW = 1_700_000_000
MAX = 2**256 - 1
UNREADABLE = "did not report its head block"
BEHIND = "is behind: its head block is more than 60 seconds old"
TO_COME = "its head block is in the future"
# 21,000 gas at 100 with a fifth more, and the floor of 1,000,000.
FEE = fee("0.00000002100252")


def block(**changes: Any) -> dict[str, Any]:
    return HEAD | {"timestamp": hex(NOW)} | changes


def why_not(answer: Any, max_age: int | None = 60) -> str:
    """Return for what fault of it a node is not believed."""
    with pytest.raises(Fault) as raised:
        head.read(answer, local_network(max_head_age_seconds=max_age), NOW)
    return str(raised.value)


def test_a_head_block_is_read() -> None:
    network = local_network(max_head_age_seconds=60)
    assert head.read(block(), network, NOW) == Head(
        number=7, timestamp=NOW, gas_used=15_000_000, gas_limit=30_000_000, base_fee=100
    )


def test_a_head_block_without_a_base_fee_has_none() -> None:
    assert head.read(block(baseFeePerGas=None), local_network(), NOW).base_fee is None


@pytest.mark.parametrize("name", ["number", "timestamp", "gasUsed", "gasLimit"])
def test_a_head_block_with_a_part_that_is_missing_or_no_number_is_a_fault(name: str) -> None:
    assert why_not(block(**{name: 5})) == UNREADABLE
    assert why_not({key: value for key, value in block().items() if key != name}) == UNREADABLE


@pytest.mark.parametrize("answer", [None, [block()], ChainError(-32601, "no")])
def test_what_is_no_block_is_a_fault(answer: Any) -> None:
    assert why_not(answer) == UNREADABLE


@pytest.mark.parametrize(
    ("age", "reason"),
    [(61, BEHIND), (-901, TO_COME), (NOW - MAX, TO_COME)],
)
def test_a_node_whose_head_is_too_old_or_still_to_come_is_not_believed(age: int, reason: str) -> None:
    assert why_not(block(timestamp=hex(NOW - age))) == reason


@pytest.mark.parametrize("age", [60, -900])
def test_a_head_may_be_as_old_as_its_network_says_and_a_little_ahead_of_our_clock(age: int) -> None:
    network = local_network(max_head_age_seconds=60)
    assert head.read(block(timestamp=hex(NOW - age)), network, NOW).timestamp == NOW - age


@pytest.mark.parametrize("timestamp", [0, MAX_TIMESTAMP])
def test_where_blocks_are_made_on_demand_a_head_has_any_time(timestamp: int) -> None:
    read = head.read(block(timestamp=hex(timestamp)), local_network(max_head_age_seconds=None), NOW)
    assert read.timestamp == timestamp
    # No date can be written after the year 9999.
    assert why_not(block(timestamp=hex(MAX_TIMESTAMP + 1)), None) == TO_COME


@pytest.mark.parametrize(
    ("timestamp", "block_seconds", "left"),
    [
        (NOW, 12, 12),
        (NOW - 5, 12, 7),
        (NOW - 10**9, 12, 0),
        # A clock that is ahead does not make a block last longer.
        (NOW + 900, 12, 12),
    ],
)
def test_a_head_counts_until_the_next_block_is_due(timestamp: int, block_seconds: float, left: float) -> None:
    network = local_network(block_seconds=block_seconds)
    assert Head(7, timestamp, 0, 0).seconds_left(network, NOW) == left


def test_blocks_of_the_local_network_are_made_on_demand() -> None:
    assert networks()["hardhat"].max_head_age_seconds is None


@pytest.mark.django_db
def test_a_node_that_is_behind_is_not_believed_while_the_head_of_another_is_known(
    change_network: ChangeNetwork,
) -> None:
    change_network(max_head_age_seconds=60, block_seconds=30)
    fresh = {"result": block(number=hex(1_000), timestamp=hex(int(time.time())))}
    with (
        node_answering(eth_estimateGas={"result": hex(10**6)}, eth_blockNumber={"result": hex(997)}) as behind,
        node_answering(eth_getBlockByNumber=fresh) as good,
    ):
        relayer = relayer_at(behind.url, good.url)
        for last in (behind, good):
            breakers.pause(last.url, 60)
            assert ask(relayer) == FEE
            cache.clear()
    assert (len(behind.requests), len(good.requests)) == (1, 2)


@pytest.mark.django_db
def test_a_node_that_reports_a_far_head_gets_no_other_paused(change_network: ChangeNetwork) -> None:
    change_network(max_head_age_seconds=60, block_seconds=30)
    far, near = ({"result": block(number=hex(number), timestamp=hex(int(time.time())))} for number in (10**9, 1_000))
    with (
        node_answering(eth_getBlockByNumber=far, eth_blockNumber={"result": hex(10**9)}) as liar,
        node_answering(eth_getBlockByNumber=near) as honest,
    ):
        relayer = relayer_at(liar.url, honest.url)
        for _ in range(12):
            assert ask(relayer) == FEE
        assert breakers.paused([liar.url, honest.url], 31337) == set()


@pytest.mark.parametrize("answer", ["0x3e6", "0x3e9"])
def test_a_node_may_be_as_far_behind_a_known_head_as_its_network_says(answer: str) -> None:
    head.check_number(answer, Head(1_000, 0, 0, 1), block_seconds=30, max_age=60)


@pytest.mark.parametrize(
    ("answer", "reason"), [("0x3e5", BEHIND), (None, UNREADABLE), (ChainError(-32601, "no"), UNREADABLE)]
)
def test_a_node_that_is_further_behind_or_reports_no_number_is_not_believed(answer: Any, reason: str) -> None:
    with pytest.raises(Fault) as fault:
        head.check_number(answer, Head(1_000, 0, 0, 1), block_seconds=30, max_age=60)
    assert str(fault.value) == reason


@pytest.mark.django_db
def test_the_client_gets_the_reason_if_every_node_is_behind(change_network: ChangeNetwork) -> None:
    change_network(max_head_age_seconds=60)
    with node_answering() as one, node_answering() as other:
        assert ask(relayer_at(one.url, other.url)) == failure(
            -32000, "Nodes unreachable", f"No node answered: {BEHIND}."
        )
    assert (len(one.requests), len(other.requests)) == (1, 1)


@pytest.mark.django_db
def test_a_quote_at_the_end_of_all_dates_is_valid_to_that_end(settings: Any) -> None:
    settings.EXTENSIONS = ["quotes"]
    with node_answering(eth_getBlockByNumber={"result": HEAD | {"timestamp": hex(MAX_TIMESTAMP - 1)}}) as node:
        result = quote(relayer_at(node.url))["result"]
    assert result["block_time"] == "9999-12-31T23:59:58.000000Z"
    assert result["valid_until"] == "9999-12-31T23:59:59.000000Z"
