"""The bounds of Chainlink's feeds: read beside the prices, kept with their sources, and obeyed by estimates."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection, transaction
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from rpc.fees import bound_checks, price_checks
from rpc.fees.sources import chainlink
from rpc.models import FeeToken, PriceSource
from tests.chain import faults
from tests.chain.answering_node import ANSWERS
from tests.chain.fixtures import Deployed
from tests.chain.hardhat import Chain
from tests.concurrency import PATIENCE_SECONDS
from tests.rpc import factories
from tests.rpc.estimates import ask, failure, relayer_at
from tests.rpc.factories import FEED

pytestmark = pytest.mark.django_db

AGGREGATOR = "0x7777777777777777777777777777777777777777"
OTHER_AGGREGATOR = "0x8888888888888888888888888888888888888888"
OTHER_FEED = "0x9999999999999999999999999999999999999999"
# Of a token that is worth a thousandth of the coin.
PRICE = 10**15
AT_LIMIT = (
    "USDC on hardhat: the source “Chainlink, token/native” is at the limit of its aggregator, which reports no "
    "price beyond it: the token's feed."
)
REVERTED = faults.error(3, "execution reverted", data="0x")
NAMES = ("decimals()", "latestRoundData()", "aggregator()", "minAnswer()", "maxAnswer()")
SELECTORS = {f"0x{keccak(text=name)[:4].hex()}": name.removesuffix("()") for name in NAMES}


@dataclass
class Contracts:
    """A node whose feeds all have the price above; other functions answer what a test sets, or revert."""

    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    # The functions that were called, by request.
    asked: list[list[str]] = field(default_factory=list)
    url: str = ""

    def answer(self, call: dict[str, Any]) -> dict[str, Any]:
        if call["method"] != "eth_call":
            return ANSWERS[call["method"]]
        name, to = SELECTORS[call["params"][0]["data"]], call["params"][0]["to"]
        now = int(time.time())
        if name == "latestRoundData":
            return {"result": words(1, PRICE, now, now, 1)}
        if name == "decimals":
            return {"result": words(18)}
        answer = self.answers.get((to, name), REVERTED)
        return answer if isinstance(answer, dict) else {"result": answer}

    def behave(self, handler: faults.Handler, asked: Any) -> None:
        calls = asked if isinstance(asked, list) else [asked]
        called = [SELECTORS[call["params"][0]["data"]] for call in calls if call["method"] == "eth_call"]
        self.asked += [called] if called else []
        faults.each(self.answer)(handler, asked)

    def bound(self, aggregator: str, minimum: int, maximum: int) -> None:
        self.answers |= {(aggregator, "minAnswer"): words(minimum), (aggregator, "maxAnswer"): words(maximum)}

    def point(self, feed: str, aggregator: str) -> None:
        self.answers[feed, "aggregator"] = words(int(aggregator, 16))


@pytest.fixture
def contracts() -> Iterator[Contracts]:
    """The feed has an aggregator whose bounds are wide."""
    made = Contracts()
    made.point(FEED, AGGREGATOR)
    made.bound(AGGREGATOR, 1, 2**95 - 1)
    with faults.node(made.behave) as node:
        made.url = node.url
        relayer_at(node.url)
        yield made


@pytest.fixture
def token() -> FeeToken:
    made = factories.fee_token(decimals=18)
    factories.chainlink_native_source(made)
    return made


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let it be so many seconds after the test began."""
    start = time.time()
    return lambda seconds: monkeypatch.setattr(time, "time", lambda: start + seconds)


def words(*values: int) -> str:
    return "0x" + encode(["int256"] * len(values), values).hex()


def check(token: FeeToken) -> str:
    """Check the price of a token as the worker does, and return why there is none."""
    (reason,) = price_checks.refresh([FeeToken.objects.get(pk=token.pk)]).values()
    return reason


def kept() -> dict[str, Any]:
    """What is kept of each feed, without when it was read."""
    rows = PriceSource.objects.values_list("feed_bounds", flat=True)
    return {
        feed: {name: value for name, value in entry.items() if name != "read_at"}
        for row in rows
        for feed, entry in row.items()
    }


def entry(aggregator: str, minimum: int, maximum: int) -> dict[str, Any]:
    return {"chain_id": 31337, "aggregator": aggregator, "minimum": str(minimum), "maximum": str(maximum)}


WIDE = entry(AGGREGATOR, 1, 2**95 - 1)


def test_a_feed_at_the_limit_of_its_aggregator_has_no_fee_on_a_real_chain(chain: Chain, deployed: Deployed) -> None:
    aggregators = [chain.deploy("BoundedAggregator", 8, low, high) for low, high in [(10**6, 10**10), (1, 2**95 - 1)]]
    token_usd, native_usd = (chain.deploy("FeedProxy", aggregator) for aggregator in aggregators)
    chain.set_feed(aggregators[0], 10**8)
    chain.set_feed(aggregators[1], 3_000 * 10**8)
    token = factories.fee_token(address=deployed.token_6)
    factories.chainlink_usd_source(token, token_usd, native_usd)
    with faults.node(faults.good, chain.url) as node:
        relayer = relayer_at(node.url)
        assert check(token) == ""
        assert kept() == {
            token_usd: entry(aggregators[0], 10**6, 10**10),
            native_usd: entry(aggregators[1], 1, 2**95 - 1),
        }
        before = len(node.requests)
        assert ask(relayer, "USDC")["result"]["conversion_rate"] == "3000"
        # The bounds cost the estimate no round trip.
        assert len(node.requests) == before + 1
    for answer in (10**6, 10**10):
        chain.set_feed(aggregators[0], answer)
        at_limit = AT_LIMIT.replace("token/native", "token/USD with native/USD")
        relayer = relayer_at(f"{chain.url}/{answer}", identifier=f"relayer-{answer}")
        assert ask(relayer, "USDC") == failure(-32002, "Price unavailable", at_limit)
        assert check(token) == at_limit


def test_a_price_is_judged_by_bounds_that_are_read_in_the_same_check(contracts: Contracts, token: FeeToken) -> None:
    contracts.bound(AGGREGATOR, PRICE, 2 * PRICE)
    assert check(token) == AT_LIMIT
    assert FeeToken.objects.get().rate_error == AT_LIMIT
    assert contracts.asked == [["aggregator"], ["minAnswer", "maxAnswer"], ["latestRoundData", "decimals"]]


def test_bounds_that_are_known_are_read_once_an_hour(
    contracts: Contracts, token: FeeToken, at: Callable[[int], None]
) -> None:
    check(token)
    contracts.bound(OTHER_AGGREGATOR, 2, 2 * PRICE)
    contracts.point(FEED, OTHER_AGGREGATOR)
    for seconds, found, requests in [(3_599, WIDE, 1), (3_601, entry(OTHER_AGGREGATOR, 2, 2 * PRICE), 3)]:
        at(seconds)
        contracts.asked.clear()
        check(token)
        assert (kept(), len(contracts.asked)) == ({FEED: found}, requests)
    # Those of a clock ahead of ours are read again.
    at(-3_600)
    contracts.asked.clear()
    check(token)
    assert contracts.asked[0] == ["aggregator"]


def test_a_new_token_gets_the_bounds_of_a_feed_that_an_older_one_has_too(
    contracts: Contracts, token: FeeToken
) -> None:
    check(token)
    new = factories.fee_token(symbol="AAA", address=factories.PAIR, decimals=18)
    factories.chainlink_native_source(new)
    contracts.asked.clear()
    price_checks.refresh(FeeToken.objects.order_by("symbol"))
    # The feed is asked for once.
    assert contracts.asked[0] == ["aggregator"]
    assert {row.token.symbol: row.feed_bounds.keys() for row in PriceSource.objects.select_related("token")} == {
        "AAA": {FEED},
        "USDC": {FEED},
    }


@pytest.mark.parametrize("bounded", [True, False])
def test_a_feed_that_names_no_aggregator_may_be_one_and_else_counts(
    contracts: Contracts, token: FeeToken, bounded: bool
) -> None:
    contracts.answers.clear()
    if bounded:
        contracts.bound(FEED, 5, 2 * PRICE)
    for _ in range(2):
        assert check(token) == ""
    assert kept() == ({FEED: entry(FEED, 5, 2 * PRICE)} if bounded else {})
    # Without bounds they are asked for again: a node may have failed to tell them.
    assert contracts.asked.count(["aggregator"]) == (1 if bounded else 2)


@pytest.mark.parametrize(("address", "name"), [(FEED, "aggregator"), (AGGREGATOR, "maxAnswer")])
def test_what_cannot_be_bounds_changes_nothing_but_a_new_aggregator_without_any_does(
    contracts: Contracts, token: FeeToken, at: Callable[[int], None], address: str, name: str
) -> None:
    check(token)
    at(3_601)
    contracts.answers[address, name] = "0x" + "ff" * 31
    assert check(token) == ""
    assert kept() == {FEED: WIDE}
    contracts.point(FEED, OTHER_AGGREGATOR)
    assert check(token) == ""
    assert kept() == {}


def test_a_node_that_fails_at_bounds_does_not_fail_the_price(
    contracts: Contracts, token: FeeToken, caplog: pytest.LogCaptureFixture
) -> None:
    contracts.answers[FEED, "aggregator"] = faults.error(-32603, "it is down")
    assert check(token) == ""
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
    assert kept() == {}


def test_an_unexpected_failure_at_bounds_is_logged_and_does_not_fail_the_price(
    contracts: Contracts, token: FeeToken, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(chainlink, "read_bounds", lambda answers: 1 / 0)
    assert check(token) == ""
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "Cannot read the bounds of feeds on hardhat"
    ]


def change_before_storing(monkeypatch: pytest.MonkeyPatch, change: Callable[[], Any]) -> None:
    """Have something done after the nodes have answered, and before that is written."""
    keep = bound_checks._store

    def changed(source: PriceSource, entries: bound_checks.Entries) -> None:
        change()
        keep(source, entries)

    monkeypatch.setattr(bound_checks, "_store", changed)


def test_a_source_changed_concurrently_gets_no_bounds_of_another_feed(
    contracts: Contracts, token: FeeToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = {"feed": OTHER_FEED, "heartbeat_seconds": 7, "feed_bounds": {OTHER_FEED: {**WIDE, "read_at": 1}}}
    change_before_storing(monkeypatch, lambda: PriceSource.objects.update(**theirs))
    check(token)
    assert PriceSource.objects.values(*theirs).get() == theirs


def test_the_bounds_of_a_feed_that_a_source_no_longer_has_are_dropped(contracts: Contracts, token: FeeToken) -> None:
    check(token)
    PriceSource.objects.update(feed=OTHER_FEED)
    contracts.point(OTHER_FEED, AGGREGATOR)
    check(token)
    assert kept() == {OTHER_FEED: WIDE}


@pytest.mark.django_db(transaction=True)
def test_bounds_wait_for_staff_who_change_the_source(contracts: Contracts, token: FeeToken) -> None:
    """Staff lock the token, as the admin does, and then change the source."""
    source = PriceSource.objects.get()
    theirs = {"feed": OTHER_FEED, "feed_bounds": {OTHER_FEED: {**WIDE, "read_at": 1}}}
    is_locked = threading.Event()

    def change() -> None:
        try:
            with transaction.atomic():
                FeeToken.objects.select_for_update().get()
                PriceSource.objects.update(**theirs)
                is_locked.set()
                time.sleep(0.3)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change)
        assert is_locked.wait(PATIENCE_SECONDS)
        bound_checks._store(source, {FEED: {**WIDE, "read_at": 2}})
        changing.result()
    assert PriceSource.objects.values(*theirs).get() == theirs
