"""Prices from Chainlink's feeds: what counts, and what does not."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from eth_abi.abi import encode

from chain.nodes.answers import ChainError
from chain.nodes.attempts import Call
from rpc.fees.sources.base import NoPrice, SourcePrice
from rpc.fees.sources.chainlink import Bounds, Chainlink, read_aggregator, read_bounds
from rpc.models import FeeToken, PriceSource
from tests.chain.answering_node import local_network
from tests.rpc.factories import FEED, NATIVE_FEED, TOKEN

NOW = 1_767_268_800
SEQUENCER = "0x7777777777777777777777777777777777777777"
OTHER_SEQUENCER = "0x8888888888888888888888888888888888888888"
REVERTED = ChainError(3, "execution reverted", "0x")
ROUNDS, DECIMALS = "0xfeaf968c", "0x313ce567"
GARBAGE: list[Any] = ["0x", "0xzz", "0x1", "é", None, 5, [], REVERTED, "0x" + "ff" * 160, "0x" + "ff" * 31]


def feed(
    answer: int,
    *,
    decimals: int = 8,
    age: int = 0,
    round_id: int = 7,
    answered_in: int = 7,
    updated_at: int | None = None,
) -> list[Any]:
    """Return what a feed answers to both of its calls."""
    at = NOW - age if updated_at is None else updated_at
    values = [round_id, answer, NOW - age, at, answered_in]
    return [
        "0x" + encode(["uint80", "int256", "uint256", "uint256", "uint80"], values).hex(),
        "0x" + encode(["uint256"], [decimals]).hex(),
    ]


# Not one value of 32 bytes.
NO_WORDS = [garbage for garbage in GARBAGE if garbage != "0x" + "ff" * 160]


def word(value: int) -> str:
    return "0x" + encode(["int256"], [value]).hex()


def sequencer(state: int, *, age: int) -> str:
    values = [7, state, NOW - age, NOW - age, 7]
    return "0x" + encode(["uint80", "int256", "uint256", "uint256", "uint80"], values).hex()


def usd(sequencer_feed: str = "", of_network: str = "", grace: int = 3_600, **changes: Any) -> Chainlink:
    row = PriceSource(
        kind=PriceSource.Kind.CHAINLINK_USD,
        feed=FEED,
        heartbeat_seconds=600,
        native_feed=NATIVE_FEED,
        native_heartbeat_seconds=60,
        sequencer_feed=sequencer_feed,
        sequencer_grace_seconds=grace,
        **changes,
    )
    return Chainlink.from_row(row, FeeToken(address=TOKEN), local_network(sequencer_feed=of_network))


def native(sequencer_feed: str = "", **changes: Any) -> Chainlink:
    values = {"feed": FEED, "heartbeat_seconds": 600, "sequencer_feed": sequencer_feed} | changes
    row = PriceSource(kind=PriceSource.Kind.CHAINLINK_NATIVE, **values)
    return Chainlink.from_row(row, FeeToken(address=TOKEN), local_network())


def reason(source: Chainlink, answers: list[Any]) -> str:
    with pytest.raises(NoPrice) as raised:
        source.price(answers, 6, NOW)
    return str(raised.value)


def call(address: str, data: str) -> Call:
    return Call("eth_call", [{"to": address, "data": data}, "latest"])


FEED_CALLS = [call(FEED, ROUNDS), call(FEED, DECIMALS)]
NATIVE_CALLS = [call(NATIVE_FEED, ROUNDS), call(NATIVE_FEED, DECIMALS)]


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        (native(SEQUENCER), [*FEED_CALLS, call(SEQUENCER, ROUNDS)]),
        (usd(SEQUENCER), [*FEED_CALLS, *NATIVE_CALLS, call(SEQUENCER, ROUNDS)]),
        (usd(of_network=SEQUENCER), [*FEED_CALLS, *NATIVE_CALLS, call(SEQUENCER, ROUNDS)]),
        (usd(OTHER_SEQUENCER, SEQUENCER), [*FEED_CALLS, *NATIVE_CALLS, call(OTHER_SEQUENCER, ROUNDS)]),
    ],
)
def test_the_feeds_are_asked_and_the_sequencers_where_there_is_one(source: Chainlink, calls: list[Call]) -> None:
    assert source.calls() == calls


@pytest.mark.parametrize(
    ("token", "coin", "rate"),
    [
        (feed(100_010_000), feed(248_193_750_000), Fraction(24_819_375, 10_001)),
        (feed(10**18, decimals=18), feed(3_000 * 10**8), Fraction(3_000)),
        (feed(10**76, decimals=77), feed(5, decimals=0), Fraction(50)),
        (feed(2**255 - 1), feed(1), Fraction(1, 2**255 - 1)),
    ],
)
def test_the_rate_of_two_feeds_is_exact(token: list[Any], coin: list[Any], rate: Fraction) -> None:
    found = usd().price([*token, *coin], 6, NOW)
    assert found == SourcePrice("Chainlink, token/USD with native/USD", rate, NOW, NOW + 120)


@pytest.mark.parametrize(
    ("token", "rate"),
    [
        (feed(402_951_121_654_151, decimals=18), Fraction(10**18, 402_951_121_654_151)),
        (feed(1, decimals=77), Fraction(10**77)),
        (feed(2**255 - 1, decimals=0), Fraction(1, 2**255 - 1)),
    ],
)
def test_the_rate_of_one_feed_is_exact(token: list[Any], rate: Fraction) -> None:
    assert native().price(token, 6, NOW) == SourcePrice("Chainlink, token/native", rate, NOW, NOW + 660)


def test_a_price_is_as_old_as_the_older_feed_and_fresh_as_long_as_the_first_to_end() -> None:
    found = usd().price([*feed(1, age=590), *feed(1, age=30)], 6, NOW)
    assert (found.updated_at, found.fresh_until) == (NOW - 590, NOW + 70)
    found = usd().price([*feed(1, age=10), *feed(1, age=30)], 6, NOW)
    assert (found.updated_at, found.fresh_until) == (NOW - 30, NOW + 90)


# What of a round does not count, as the end of a sentence.
REFUSED = [
    *((feed(price), "reports a price that is not above zero: ") for price in (0, -1)),
    *((feed(1, **values), "has not finished its round: ") for values in ({"updated_at": 0}, {"answered_in": 6})),
    (feed(1, decimals=78), "has too many decimals: "),
    (feed(1, updated_at=NOW + 901), "reports a time in the future: "),
    (feed(1, decimals=256), "did not answer: "),
    (["0x" + "00" * 159, feed(1)[1]], "did not answer: "),
    *(([garbage, feed(1)[1]], "did not answer: ") for garbage in GARBAGE),
    *(([feed(1)[0], garbage], "did not answer: ") for garbage in GARBAGE),
]


@pytest.mark.parametrize(("answers", "why"), REFUSED)
def test_an_answer_that_cannot_be_trusted_is_no_price(answers: list[Any], why: str) -> None:
    assert reason(native(), answers) == f"{why}the token's feed"
    assert reason(usd(), [*answers, *feed(1)]) == f"{why}the token's feed"
    assert reason(usd(), [*feed(1), *answers]) == f"{why}the native coin's feed"


@pytest.mark.parametrize("answers", [feed(1, answered_in=8), feed(1, updated_at=NOW + 900)])
def test_an_answer_of_a_later_round_or_of_a_clock_that_is_a_little_ahead_counts(answers: list[Any]) -> None:
    assert native().price(answers, 6, NOW).rate == 10**8


def test_each_feed_is_stale_by_its_own_heartbeat() -> None:
    token, coin = "the token's feed", "the native coin's feed"
    assert usd().price([*feed(1, age=660), *feed(1, age=120)], 6, NOW).fresh_until == NOW
    assert reason(usd(), [*feed(1, age=661), *feed(1, age=120)]) == f"is stale: {token} is older than its heartbeat"
    assert reason(usd(), [*feed(1, age=660), *feed(1, age=121)]) == f"is stale: {coin} is older than its heartbeat"
    assert native().price(feed(1, age=660), 6, NOW).fresh_until == NOW
    assert reason(native(), feed(1, age=661)) == f"is stale: {token} is older than its heartbeat"


@pytest.mark.parametrize(("heartbeat", "grace"), [(1, 60), (609, 60), (610, 61), (86_400, 8_640)])
def test_a_heartbeat_has_a_grace_of_a_tenth_and_at_least_a_minute(heartbeat: int, grace: int) -> None:
    source = native(heartbeat_seconds=heartbeat)
    assert source.price(feed(1, age=heartbeat + grace), 6, NOW).fresh_until == NOW
    assert reason(source, feed(1, age=heartbeat + grace + 1)).startswith("is stale: ")


def kept(minimum: int, maximum: int, chain_id: int = 31337) -> dict[str, Any]:
    """What is kept of a feed with these bounds."""
    values = {"minimum": str(minimum), "maximum": str(maximum)}
    return {"chain_id": chain_id, "aggregator": OTHER_SEQUENCER, "read_at": NOW} | values


AT_LIMIT = "is at the limit of its aggregator, which reports no price beyond it: "


@pytest.mark.parametrize("answer", [99, 100, 1_000, 1_001])
def test_a_feed_at_the_bounds_of_its_aggregator_has_no_price(answer: int) -> None:
    bounds = kept(100, 1_000)
    source = native(feed_bounds={FEED: bounds})
    assert reason(source, feed(answer)) == f"{AT_LIMIT}the token's feed"
    of_native = usd(feed_bounds={NATIVE_FEED: bounds})
    assert reason(of_native, [*feed(500), *feed(answer)]) == f"{AT_LIMIT}the native coin's feed"
    for within in (101, 999):
        assert source.price(feed(within), 6, NOW).rate == Fraction(10**8, within)


@pytest.mark.parametrize("others", [{SEQUENCER: kept(2, 3)}, {FEED: kept(2, 3, chain_id=1)}])
def test_bounds_of_another_feed_or_chain_do_not_count(others: dict[str, Any]) -> None:
    assert native(feed_bounds=others).price(feed(1), 6, NOW).rate == 10**8


@pytest.mark.parametrize(("minimum", "maximum"), [(0, 1), (-(2**255), 2**255 - 1)])
def test_bounds_are_read_from_an_aggregator(minimum: int, maximum: int) -> None:
    assert read_bounds([word(minimum), word(maximum)]) == Bounds(minimum, maximum)


@pytest.mark.parametrize("answers", [[word(2), word(1)], [word(6), word(6)], *([word(5), no] for no in NO_WORDS)])
def test_what_cannot_be_bounds_is_none(answers: list[Any]) -> None:
    assert read_bounds(answers) is None


def test_a_feed_names_its_aggregator_in_any_case() -> None:
    address = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
    assert read_aggregator(f"0x{'00' * 12}{address[2:].lower()}") == address


@pytest.mark.parametrize("answer", [word(0), word(2**160), *NO_WORDS])
def test_what_is_no_address_names_no_aggregator(answer: Any) -> None:
    assert read_aggregator(answer) is None


@pytest.mark.parametrize(
    ("source", "answers"), [(native(SEQUENCER), feed(10**8)), (usd(of_network=SEQUENCER), feed(10**8) * 2)]
)
def test_feeds_count_only_while_the_sequencer_is_up_and_was_for_a_while(source: Chainlink, answers: list[Any]) -> None:
    assert source.price([*answers, sequencer(0, age=3_600)], 6, NOW).rate == 1
    early = "cannot be trusted yet: the network's sequencer was down recently"
    assert reason(source, [*answers, sequencer(0, age=3_599)]) == early
    down = "cannot be trusted: the network's sequencer is down"
    for state in (1, -1):
        assert reason(source, [*answers, sequencer(state, age=86_400)]) == down
    # A feed that was never started.
    assert reason(source, [*answers, sequencer(0, age=NOW)]) == down
    silent = "cannot be trusted: the sequencer's feed did not answer"
    assert reason(source, [*answers, REVERTED]) == silent


def test_the_grace_may_be_none() -> None:
    assert usd(SEQUENCER, grace=0).price([*feed(1), *feed(1), sequencer(0, age=0)], 6, NOW).rate == 1
