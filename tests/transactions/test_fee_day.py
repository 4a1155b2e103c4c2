"""A day of simulated blocks with a fee spike: nothing is stuck after it, and little is paid above the minimum."""

from __future__ import annotations

import pytest

from benchmarks.areas.fee_day import GWEI, SPIKE, day, run, simulate, table
from transactions.models import Transaction

BLOCKS = 600


@pytest.mark.parametrize("speed", Transaction.Speed.values)
@pytest.mark.parametrize("cap", [2, 30])
def test_a_cap_leaves_nothing_stuck_after_the_spike(speed: str, cap: int) -> None:
    blocks, end = day(BLOCKS, seed=cap), int(BLOCKS * SPIKE[1])
    found = simulate(speed, cap * GWEI, blocks)
    affordable = next(block.number for block in blocks[end:] if block.base_fee < cap * GWEI)
    assert found.mined == found.accepted
    assert found.longest_blocks > 15
    # A row that waits is considered again within a minute, five blocks.
    assert end + found.blocks_to_recover - affordable <= 12


@pytest.mark.parametrize("speed", Transaction.Speed.values)
def test_without_a_cap_a_spike_delays_by_some_blocks_only(speed: str) -> None:
    found = simulate(speed, None, day(BLOCKS))
    assert found.mined == found.accepted
    assert found.longest_blocks <= 30
    assert found.above_minimum_percent <= 15


def test_the_table_has_a_line_for_each_speed_with_and_without_a_cap() -> None:
    lines = table(run(120)).splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        [f"| {speed}", cap] for cap in ("none", "20 gwei") for speed in Transaction.Speed.values
    ]
