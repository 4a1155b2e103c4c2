from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

from chain.attempts import Call
from chain.contracts import Unreadable, contract_call, read_call
from chain.head import MAX_CLOCK_SKEW_SECONDS
from chain.networks import Network
from rpc.fees.sources.base import NoPrice, Source, SourcePrice
from rpc.fees.sources.bounds import Bounds, kept_bounds
from rpc.models import FeeToken, PriceSource

ROUND = ["uint80", "int256", "uint256", "uint256", "uint80"]
SEQUENCER_IS_UP = 0
# No feed has more decimals: ten to this power still fits into 256 bits.
MAX_DECIMALS = 77
# A feed's new answer is due when its heartbeat ends, and takes a while to get into a block.
GRACE_PART, MIN_GRACE_SECONDS = 10, 60


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
    what: str
    # None while they are unknown, or where its aggregator has none.
    bounds: Bounds | None = None

    def calls(self) -> list[Call]:
        # Read with each price: another aggregator with other decimals may stand behind a feed.
        return [contract_call(self.address, "latestRoundData()"), contract_call(self.address, "decimals()")]

    def read(self, answers: Sequence[Any], now: int) -> Round:
        """Return the last answer; raise `NoPrice` if it cannot be trusted or is too old."""
        try:
            round_id, answer, _, updated_at, answered_in = read_call(answers[0], ROUND)
            (decimals,) = read_call(answers[1], ["uint8"])
        except Unreadable:
            raise NoPrice(f"does not answer: {self.what}") from None
        if decimals > MAX_DECIMALS:
            raise NoPrice(f"has more decimals than it can have: {self.what}")
        if answer <= 0:
            raise NoPrice(f"gives a price that is not above zero: {self.what}")
        if updated_at == 0 or answered_in < round_id:
            raise NoPrice(f"has not finished its round: {self.what}")
        if updated_at > now + MAX_CLOCK_SKEW_SECONDS:
            raise NoPrice(f"gives a time that is still to come: {self.what}")
        if self.bounds and self.bounds.are_reached_by(answer):
            raise NoPrice(f"stands at the limit of its aggregator, which reports no price beyond it: {self.what}")
        fresh_until = updated_at + self.heartbeat + max(self.heartbeat // GRACE_PART, MIN_GRACE_SECONDS)
        if now > fresh_until:
            raise NoPrice(f"is stale: {self.what} is older than its heartbeat")
        return Round(Fraction(answer, 10**decimals), updated_at, fresh_until)


@dataclass(frozen=True)
class Chainlink(Source):
    """Chainlink feeds; on a rollup they count only if its sequencer has been up for some time."""

    feeds: tuple[Feed, ...]
    sequencer_feed: str
    sequencer_grace_seconds: int

    @classmethod
    def from_row(cls, row: PriceSource, token: FeeToken, network: Network) -> Self:
        sequencer_feed = row.sequencer_feed or network.sequencer_feed
        feeds = tuple(
            replace(feed, bounds=kept_bounds(row, feed.address, network.chain_id)) for feed in cls.feeds_of(row)
        )
        return cls(str(row), feeds, sequencer_feed, row.sequencer_grace_seconds)

    @staticmethod
    @abstractmethod
    def feeds_of(row: PriceSource) -> tuple[Feed, ...]:
        """Return the feeds to read, without their bounds."""

    @abstractmethod
    def rate(self, rounds: Sequence[Round]) -> Fraction:
        """Return tokens for one native coin."""

    def calls(self) -> Sequence[Call]:
        calls = [call for feed in self.feeds for call in feed.calls()]
        if self.sequencer_feed:
            calls.append(contract_call(self.sequencer_feed, "latestRoundData()"))
        return calls

    def price(self, answers: Sequence[Any], decimals: int, now: int) -> SourcePrice:
        if self.sequencer_feed:
            self._check_sequencer(answers[-1], now)
        rounds = [feed.read(answers[2 * at : 2 * at + 2], now) for at, feed in enumerate(self.feeds)]
        return SourcePrice(
            self.name,
            self.rate(rounds),
            min(each.updated_at for each in rounds),
            min(each.fresh_until for each in rounds),
        )

    def _check_sequencer(self, answer: Any, now: int) -> None:
        try:
            _, state, started_at, _, _ = read_call(answer, ROUND)
        except Unreadable:
            raise NoPrice("cannot be trusted: the sequencer's feed does not answer") from None
        if state != SEQUENCER_IS_UP or started_at == 0:
            raise NoPrice("cannot be trusted: the network's sequencer is down")
        if now < started_at + self.sequencer_grace_seconds:
            raise NoPrice("cannot be trusted yet: the network's sequencer was down a short while ago")


class ChainlinkUsd(Chainlink):
    """The prices of token and native coin, both in USD."""

    @staticmethod
    def feeds_of(row: PriceSource) -> tuple[Feed, ...]:
        return (
            Feed(row.feed, row.heartbeat_seconds or 0, "the token's feed"),
            Feed(row.native_feed, row.native_heartbeat_seconds or 0, "the native coin's feed"),
        )

    def rate(self, rounds: Sequence[Round]) -> Fraction:
        token, native = rounds
        return native.price / token.price


class ChainlinkNative(Chainlink):
    """The price of the token in the native coin."""

    @staticmethod
    def feeds_of(row: PriceSource) -> tuple[Feed, ...]:
        return (Feed(row.feed, row.heartbeat_seconds or 0, "the token's feed"),)

    def rate(self, rounds: Sequence[Round]) -> Fraction:
        (token,) = rounds
        return 1 / token.price
