"""What is believed of a node: how fresh and how plausible its answers must be. Pure functions.

A value that is not believed is one that was not reported: another node is asked, or nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from chain.networks import BaseFeeRule, Network

if TYPE_CHECKING:
    from chain.nodes.head import Head

# How far a node may be behind the believed head, or its head above what time allows.
MAX_BLOCKS_BEHIND = 3
# Block times vary: heads may rise at up to this multiple of the network's rate.
MAX_PACE = 2
# After this time without a new head lower ones are believed, and after as long of rising heads higher ones.
PATIENCE_BLOCKS, PATIENCE_SECONDS = 10, 60
# More, and a chain is halted: nodes without lanes are checked once a minute.
HALT_SECONDS = 60
# How far the clock of a chain may be ahead of the database's.
MAX_CLOCK_SKEW_SECONDS = 900
# The end of the year 9999, the last that `datetime` supports.
MAX_TIMESTAMP = 253_402_300_799
BEHIND = "is behind: its head block is more than {} seconds old"
# EIP-1559: the target is half the gas limit, and the base fee changes by at most an eighth.
ELASTICITY = 2
MAX_CHANGE_DENOMINATOR = 8
# A tip up to this part of the network's maximum is believed at once, a higher one up to a multiple of earlier ones.
TIP_SHARE, MAX_TIP_RISE = 10, 4


def age_fault(timestamp: int, now: float, max_age: int | None) -> str:
    """Return why the time of a head block is not believed; "" if it is."""
    if timestamp > MAX_TIMESTAMP or (max_age is not None and timestamp > now + MAX_CLOCK_SKEW_SECONDS):
        return "its head block is in the future"
    return BEHIND.format(max_age) if max_age is not None and now - timestamp > max_age else ""


def patience(network: Network) -> timedelta:
    return timedelta(seconds=max(PATIENCE_SECONDS, PATIENCE_BLOCKS * network.block_seconds))


def halt_limit(network: Network) -> timedelta:
    """Return how long no new block may come until the chain counts as halted."""
    return patience(network) + timedelta(seconds=HALT_SECONDS)


def highest_head(network: Network, number: int, at: datetime, now: datetime) -> int:
    """Return the highest head that time allows after a believed one."""
    return number + (now - at) * MAX_PACE // timedelta(seconds=network.block_seconds) + MAX_BLOCKS_BEHIND


def is_believed(head: int, limit: int | None, others: Sequence[int]) -> bool:
    """Return whether a head is believed: time allows it, or another node has it, too."""
    return limit is None or head <= limit or any(abs(other - head) <= MAX_BLOCKS_BEHIND for other in others)


def anchor_time(network: Network, at: datetime, blocks: int, now: datetime) -> datetime:
    """Return from when on the next head is judged: later than now after one above what time allows.

    So the tolerance is granted once, and not with every head.
    """
    block = timedelta(seconds=network.block_seconds) / MAX_PACE
    return max(now, min(at + blocks * block, now + MAX_BLOCKS_BEHIND * block))


def is_above(block: int | None, head: int) -> bool:
    """Return whether a stored block cannot be right if this head is."""
    return block is not None and block > head + MAX_BLOCKS_BEHIND


def plausible_base_fee(network: Network, reported: int, head: Head) -> int:
    """Return the reported base fee of the next block, or one by the head block if that rules it out.

    A node must not make a sender pay any price by a false history.
    """
    if head.base_fee is None:
        return reported
    change = head.base_fee // MAX_CHANGE_DENOMINATOR
    has_known_rule = network.base_fee_rule == BaseFeeRule.EIP_1559 and network.reports_fullness
    # Other rules let it fall faster, by time.
    lowest = head.base_fee - change if has_known_rule else 0
    if lowest <= reported <= head.base_fee + max(change, 1):
        return reported
    if has_known_rule and head.gas_limit >= ELASTICITY:
        return by_eip_1559(head.base_fee, min(head.gas_used, head.gas_limit), head.gas_limit)
    return head.base_fee


def by_eip_1559(base_fee: int, gas_used: int, gas_limit: int) -> int:
    """Return the base fee of the block that follows."""
    target = gas_limit // ELASTICITY
    change = base_fee * abs(gas_used - target) // target // MAX_CHANGE_DENOMINATOR
    if gas_used > target:
        return base_fee + max(change, 1)
    return base_fee - change


def at_most(maximum: int | None, reported: int | None) -> int | None:
    """Return a reported value, or None if it is above the maximum."""
    return None if maximum is not None and reported is not None and reported > maximum else reported


def tip_limit(ceiling: int, earlier: int) -> int:
    """Return up to which tip one node is believed, after an earlier tip; of a price without a base fee likewise."""
    return min(ceiling, max(ceiling // TIP_SHARE, MAX_TIP_RISE * earlier))
