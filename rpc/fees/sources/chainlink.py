from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from eth_utils.address import to_checksum_address

from chain.contracts import Unreadable, contract_call, read_call
from chain.networks import Network
from chain.nodes.attempts import Call
from chain.nodes.plausibility import MAX_CLOCK_SKEW_SECONDS
from rpc.fees.sources.base import NoPrice, Source, SourcePrice
from rpc.models import FeeToken, PriceSource

ROUND = ["uint80", "int256", "uint256", "uint256", "uint80"]
SEQUENCER_IS_UP = 0
# No feed has more decimals: ten to this power still fits into 256 bits.
MAX_DECIMALS = 77
# A feed's new answer is due when its heartbeat ends, and takes a while to get into a block.
GRACE_PART, MIN_GRACE_SECONDS = 10, 60


@dataclass(frozen=True)
class Bounds:
    """The lowest and the highest answer that an aggregator reports: at either one, the price may be beyond it."""

    minimum: int
    maximum: int

    @classmethod
    def from_row(cls, row: PriceSource, feed: str, chain_id: int) -> Self | None:
        """Return the stored bounds of a feed; None if none were read on this chain."""
        entry = row.feed_bounds.get(feed)
        if not entry or entry["chain_id"] != chain_id:
            return None
        return cls(int(entry["minimum"]), int(entry["maximum"]))


def read_aggregator(answer: Any) -> str | None:
    """Return the aggregator behind a feed from the answer to `aggregator()`; None if there is none."""
    try:
        (aggregator,) = read_call(answer, ["address"])
    except Unreadable:
        return None
    return str(to_checksum_address(aggregator)) if int(aggregator, 16) else None


def read_bounds(answers: Sequence[Any]) -> Bounds | None:
    """Return the bounds from the answers to `minAnswer()` and `maxAnswer()`; None if they are not bounds."""
    try:
        minimum, maximum = (read_call(answer, ["int256"])[0] for answer in answers)
    except Unreadable:
        return None
    return Bounds(minimum, maximum) if minimum < maximum else None


@dataclass(frozen=True)
class Round:
    """The last answer of a feed, checked."""

    price: Fraction
    updated_at: int
    fresh_until: int


@dataclass(frozen=True)
class Feed:
    address: str
    heartbeat: int
    title: str
    # None if they are unknown or the aggregator has none.
    bounds: Bounds | None = None

    def calls(self) -> list[Call]:
        # The decimals are read with each price, as a feed can switch to an aggregator with other decimals.
        return [contract_call(self.address, "latestRoundData()"), contract_call(self.address, "decimals()")]

    def read(self, answers: Sequence[Any], now: int) -> Round:
        """Return the last answer; raise `NoPrice` if it cannot be trusted or is too old."""
        try:
            round_id, answer, _, updated_at, answered_in = read_call(answers[0], ROUND)
            (decimals,) = read_call(answers[1], ["uint8"])
        except Unreadable:
            raise NoPrice(f"did not answer: {self.title}") from None
        if decimals > MAX_DECIMALS:
            raise NoPrice(f"has too many decimals: {self.title}")
        if answer <= 0:
            raise NoPrice(f"reports a price that is not above zero: {self.title}")
        if updated_at == 0 or answered_in < round_id:
            raise NoPrice(f"has not finished its round: {self.title}")
        if updated_at > now + MAX_CLOCK_SKEW_SECONDS:
            raise NoPrice(f"reports a time in the future: {self.title}")
        if self.bounds and not self.bounds.minimum < answer < self.bounds.maximum:
            raise NoPrice(f"is at the limit of its aggregator, which reports no price beyond it: {self.title}")
        fresh_until = updated_at + self.heartbeat + max(self.heartbeat // GRACE_PART, MIN_GRACE_SECONDS)
        if now > fresh_until:
            raise NoPrice(f"is stale: {self.title} is older than its heartbeat")
        return Round(Fraction(answer, 10**decimals), updated_at, fresh_until)


@dataclass(frozen=True)
class Chainlink(Source):
    """Chainlink feeds; on a rollup they count only if its sequencer has been up for some time."""

    feeds: tuple[Feed, ...]
    sequencer_feed: str
    sequencer_grace_seconds: int

    @classmethod
    def from_row(cls, row: PriceSource, token: FeeToken, network: Network) -> Self:
        feeds = [(row.feed, row.heartbeat_seconds, "the token's feed")]
        if row.kind == PriceSource.Kind.CHAINLINK_USD:
            feeds.append((row.native_feed, row.native_heartbeat_seconds, "the native coin's feed"))
        return cls(
            str(row),
            tuple(
                Feed(address, heartbeat or 0, title, Bounds.from_row(row, address, network.chain_id))
                for address, heartbeat, title in feeds
            ),
            row.sequencer_feed or network.sequencer_feed,
            row.sequencer_grace_seconds,
        )

    def calls(self) -> Sequence[Call]:
        calls = [call for feed in self.feeds for call in feed.calls()]
        if self.sequencer_feed:
            calls.append(contract_call(self.sequencer_feed, "latestRoundData()"))
        return calls

    def price(self, answers: Sequence[Any], decimals: int, now: int) -> SourcePrice:
        if self.sequencer_feed:
            self._check_sequencer(answers[-1], now)
        rounds = [feed.read(answers[2 * at : 2 * at + 2], now) for at, feed in enumerate(self.feeds)]
        token, *native = rounds
        rate = (native[0].price if native else 1) / token.price
        updated_at, fresh_until = (min(each.updated_at for each in rounds), min(each.fresh_until for each in rounds))
        return SourcePrice(self.name, rate, updated_at, fresh_until)

    def _check_sequencer(self, answer: Any, now: int) -> None:
        try:
            _, state, started_at, _, _ = read_call(answer, ROUND)
        except Unreadable:
            raise NoPrice("cannot be trusted: the sequencer's feed did not answer") from None
        if state != SEQUENCER_IS_UP or started_at == 0:
            raise NoPrice("cannot be trusted: the network's sequencer is down")
        if now < started_at + self.sequencer_grace_seconds:
            raise NoPrice("cannot be trusted yet: the network's sequencer was down recently")
