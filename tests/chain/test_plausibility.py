"""What is believed of a node: tables of the rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from chain.networks import networks
from chain.nodes import plausibility
from tests.transactions.lane_values import network

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GWEI = 10**9


@pytest.mark.parametrize(
    ("seconds", "highest"),
    # Twice the rate of the network, and three blocks.
    [(0, 103), (5.9, 103), (6, 104), (12, 105), (3600, 703), (-6, 102), (-18, 100)],
)
def test_a_head_may_rise_with_time(seconds: float, highest: int) -> None:
    at = NOW - timedelta(seconds=seconds)
    assert plausibility.highest_head(network(block_seconds=12), 100, at, NOW) == highest


@pytest.mark.parametrize("blocks", [1, 2, 3, 1_000])
def test_a_head_above_what_time_allows_takes_its_tolerance_from_the_next(blocks: int) -> None:
    at = plausibility.anchor_time(network(block_seconds=12), NOW, blocks, NOW)
    assert plausibility.highest_head(network(block_seconds=12), 100 + blocks, at, NOW) == 100 + max(3, blocks)


@pytest.mark.parametrize(
    ("limit", "others", "is_believed"),
    [(None, [], True), (100, [], True), (99, [], False), (99, [96], False), (99, [97], True), (99, [104], False)],
)
def test_a_head_is_believed_by_time_or_by_another_node(
    limit: int | None, others: list[int], is_believed: bool
) -> None:
    assert plausibility.is_believed(100, limit, others) is is_believed


@pytest.mark.parametrize(
    ("earlier", "limit"),
    [(0, 10 * GWEI), (GWEI, 10 * GWEI), (5 * GWEI, 20 * GWEI), (30 * GWEI, 100 * GWEI)],
)
def test_tips_are_believed_up_to_a_tenth_of_the_maximum_or_four_times_earlier_ones(earlier: int, limit: int) -> None:
    assert plausibility.tip_limit(network("mainnet").tip_ceiling, earlier) == limit


@pytest.mark.parametrize(
    ("maximum", "reported", "believed"), [(5, 5, 5), (5, 6, None), (None, 6, 6), (5, None, None), (0, 0, 0)]
)
def test_what_is_above_a_maximum_was_not_reported(
    maximum: int | None, reported: int | None, believed: int | None
) -> None:
    assert plausibility.at_most(maximum, reported) == believed


def test_every_network_believes_the_tips_that_its_nodes_require() -> None:
    needed = {each.name: 4 * (each.tip_floor or 0) for each in networks().values()}
    assert [name for name, tip in needed.items() if tip > networks()[name].tip_ceiling // 10] == []
