"""The bounds of a Chainlink feed: its aggregator reports no answer below `minAnswer` nor above `maxAnswer`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eth_utils.address import to_checksum_address

from chain.attempts import Call
from chain.contracts import Unreadable, contract_call, read_call
from rpc.models import PriceSource


@dataclass(frozen=True)
class Bounds:
    """The lowest and the highest answer of an aggregator: one that stands there may hide a price beyond it."""

    minimum: int
    maximum: int

    def are_reached_by(self, answer: int) -> bool:
        return not self.minimum < answer < self.maximum


def kept_bounds(row: PriceSource, feed: str, chain_id: int) -> Bounds | None:
    """Return the bounds of a feed that were kept with its source; None if none were read on this chain."""
    entry = row.feed_bounds.get(feed)
    if not entry or entry["chain_id"] != chain_id:
        return None
    return Bounds(int(entry["minimum"]), int(entry["maximum"]))


def aggregator_call(feed: str) -> Call:
    return contract_call(feed, "aggregator()")


def read_aggregator(answer: Any) -> str | None:
    """Return the aggregator that a feed stands for; None if it names none."""
    try:
        (aggregator,) = read_call(answer, ["address"])
    except Unreadable:
        return None
    return str(to_checksum_address(aggregator)) if int(aggregator, 16) else None


def bounds_calls(aggregator: str) -> list[Call]:
    return [contract_call(aggregator, "minAnswer()"), contract_call(aggregator, "maxAnswer()")]


def read_bounds(answers: Sequence[Any]) -> Bounds | None:
    """Return the bounds of an aggregator; None if it has none or answers what cannot be bounds."""
    try:
        minimum, maximum = (read_call(answer, ["int256"])[0] for answer in answers)
    except Unreadable:
        return None
    return Bounds(minimum, maximum) if minimum < maximum else None
