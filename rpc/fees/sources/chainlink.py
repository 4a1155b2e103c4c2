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
# Ten to this power is no number of digits that a feed has.
MOST_DECIMALS = 77
# By so much a chain's clock may be ahead of ours; an answer from further ahead would be fresh for longer than it is.
CLOCKS_DIFFER_SECONDS = 900


@dataclass(frozen=True)
class Round:
    """The last answer of a feed, checked."""

    price: Fraction
    updated_at: int
    fresh_until: int


def feed_calls(feed: str) -> list[Call]:
    # A feed may get another aggregator behind it, so that its decimals are read along.
    return [contract_call(feed, "latestRoundData()"), contract_call(feed, "decimals()")]


def read_round(answers: Sequence[Any], heartbeat: int, now: int, what: str) -> Round:
    """Read a feed's answer, and refuse one that is not above zero, not of its own round, or too old."""
    try:
        round_id, answer, _, updated_at, answered_in = read_call(answers[0], ROUND)
        (decimals,) = read_call(answers[1], ["uint8"])
    except Unreadable:
        raise NoPrice(f"does not answer: {what}") from None
    if decimals > MOST_DECIMALS:
        raise NoPrice(f"has more decimals than it can have: {what}")
    if answer <= 0:
        raise NoPrice(f"gives a price that is not above zero: {what}")
    if updated_at == 0 or answered_in < round_id:
        raise NoPrice(f"has not finished its round: {what}")
    if updated_at > now + CLOCKS_DIFFER_SECONDS:
        raise NoPrice(f"gives a time that is still to come: {what}")
    if now > updated_at + heartbeat:
        raise NoPrice(f"is stale: {what} is older than its heartbeat")
    return Round(Fraction(answer, 10**decimals), updated_at, updated_at + heartbeat)


class Chainlink(Source):
    """Feeds of Chainlink's kind; on a rollup they count only while its sequencer is up, and some time after."""

    @property
    def sequencer_feed(self) -> str:
        return self.source.sequencer_feed or self.network.sequencer_feed

    @abstractmethod
    def feeds(self) -> list[tuple[str, int, str]]:
        """Give the feeds to read: address, heartbeat, and what it is."""

    @abstractmethod
    def rate(self, rounds: Sequence[Round]) -> Fraction:
        """Give tokens for one native coin."""

    def calls(self) -> Sequence[Call]:
        calls = [call for feed, _, _ in self.feeds() for call in feed_calls(feed)]
        if self.sequencer_feed:
            calls.append(contract_call(self.sequencer_feed, "latestRoundData()"))
        return calls

    def price(self, answers: Sequence[Any], decimals: int, now: int) -> SourcePrice:
        if self.sequencer_feed:
            self._check_sequencer(answers[-1], now)
        rounds = [
            read_round(answers[2 * number : 2 * number + 2], heartbeat, now, what)
            for number, (_, heartbeat, what) in enumerate(self.feeds())
        ]
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
        if now < started_at + self.source.sequencer_grace_seconds:
            raise NoPrice("cannot be trusted yet: the network's sequencer was down a short while ago")


class ChainlinkUsd(Chainlink):
    """The prices of token and native coin, both in USD."""

    def feeds(self) -> list[tuple[str, int, str]]:
        return [
            (self.source.feed, self.source.heartbeat_seconds or 0, "the token's feed"),
            (self.source.native_feed, self.source.native_heartbeat_seconds or 0, "the native coin's feed"),
        ]

    def rate(self, rounds: Sequence[Round]) -> Fraction:
        token, native = rounds
        return native.price / token.price


class ChainlinkNative(Chainlink):
    """The price of the token in the native coin."""

    def feeds(self) -> list[tuple[str, int, str]]:
        return [(self.source.feed, self.source.heartbeat_seconds or 0, "the token's feed")]

    def rate(self, rounds: Sequence[Round]) -> Fraction:
        (token,) = rounds
        return 1 / token.price
