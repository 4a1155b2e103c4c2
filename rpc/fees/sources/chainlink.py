from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from relayers.chain.attempts import Call
from relayers.chain.contracts import Unreadable, contract_call, read_call
from rpc.fees.sources.base import NoPrice, Source, SourcePrice

ROUND = ["uint80", "int256", "uint256", "uint256", "uint80"]
SEQUENCER_IS_UP = 0
# No feed has more decimals: ten to this power still fits into 256 bits.
MAX_DECIMALS = 77
# How far the clock of a chain may be ahead: an answer from the future would count for too long.
MAX_CLOCK_SKEW_SECONDS = 900


@dataclass(frozen=True)
class Round:
    """The last answer of a feed, checked."""

    price: Fraction
    updated_at: int
    fresh_until: int


def read_round(answers: Sequence[Any], heartbeat: int, now: int, what: str) -> Round:
    """Return the answer of a feed; raise `NoPrice` if it is not above zero, not of its own round, or too old."""
    try:
        round_id, answer, _, updated_at, answered_in = read_call(answers[0], ROUND)
        (decimals,) = read_call(answers[1], ["uint8"])
    except Unreadable:
        raise NoPrice(f"does not answer: {what}") from None
    if decimals > MAX_DECIMALS:
        raise NoPrice(f"has more decimals than it can have: {what}")
    if answer <= 0:
        raise NoPrice(f"gives a price that is not above zero: {what}")
    if updated_at == 0 or answered_in < round_id:
        raise NoPrice(f"has not finished its round: {what}")
    if updated_at > now + MAX_CLOCK_SKEW_SECONDS:
        raise NoPrice(f"gives a time that is still to come: {what}")
    if now > updated_at + heartbeat:
        raise NoPrice(f"is stale: {what} is older than its heartbeat")
    return Round(Fraction(answer, 10**decimals), updated_at, updated_at + heartbeat)


@dataclass(frozen=True)
class Feed:
    address: str
    heartbeat: int | None
    what: str


class Chainlink(Source):
    """Chainlink feeds; on a rollup they count only if its sequencer has been up for some time."""

    @property
    @abstractmethod
    def feeds(self) -> Sequence[Feed]:
        """The feeds to read."""

    @abstractmethod
    def rate(self, rounds: Sequence[Round]) -> Fraction:
        """Return tokens for one native coin."""

    @property
    def sequencer_feed(self) -> str:
        return self.row.sequencer_feed or self.network.sequencer_feed

    def calls(self) -> Sequence[Call]:
        # Decimals with each price: another aggregator with other decimals may stand behind a feed.
        names = ("latestRoundData()", "decimals()")
        calls = [contract_call(feed.address, name) for feed in self.feeds for name in names]
        if self.sequencer_feed:
            calls.append(contract_call(self.sequencer_feed, "latestRoundData()"))
        return calls

    def price(self, answers: Sequence[Any], decimals: int, now: int) -> SourcePrice:
        if self.sequencer_feed:
            self._check_sequencer(answers[-1], now)
        rounds = [
            read_round(answers[2 * number : 2 * number + 2], feed.heartbeat or 0, now, feed.what)
            for number, feed in enumerate(self.feeds)
        ]
        return SourcePrice(
            str(self.row),
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
        if now < started_at + self.row.sequencer_grace_seconds:
            raise NoPrice("cannot be trusted yet: the network's sequencer was down a short while ago")

    def token_feed(self) -> Feed:
        return Feed(self.row.feed, self.row.heartbeat_seconds, "the token's feed")


class ChainlinkUsd(Chainlink):
    """The prices of token and native coin, both in USD."""

    @property
    def feeds(self) -> Sequence[Feed]:
        native = Feed(self.row.native_feed, self.row.native_heartbeat_seconds, "the native coin's feed")
        return [self.token_feed(), native]

    def rate(self, rounds: Sequence[Round]) -> Fraction:
        token, native = rounds
        return native.price / token.price


class ChainlinkNative(Chainlink):
    """The price of the token in the native coin."""

    @property
    def feeds(self) -> Sequence[Feed]:
        return [self.token_feed()]

    def rate(self, rounds: Sequence[Round]) -> Fraction:
        (token,) = rounds
        return 1 / token.price
