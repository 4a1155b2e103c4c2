"""Reading the prices of fee tokens for the admin and the metrics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.utils import timezone
from pytest_django import Settings

from relayer_service.background.pools import map_threads
from relayer_service.database.clock import database_now
from relayer_service.models import PeriodicRun
from relayer_service.observability import metrics
from rpc import tasks
from rpc.fees import price_checks
from rpc.fees.prices import Quote
from rpc.models import FeeToken, PriceSource
from tests.chain.answering_node import node_answering
from tests.chain.faults import NodeServer
from tests.chain.fixtures import Deployed
from tests.chain.hardhat import Chain
from tests.notifications.factories import create_notification
from tests.relayer_service.observability.test_metrics import samples
from tests.rpc import factories
from tests.rpc.estimates import relayer_at
from tests.servers import free_port

pytestmark = pytest.mark.django_db

NO_RELAYER = "There is no relayer on hardhat whose nodes could be queried."
NO_PRICE: dict[str, Any] = {"rate_text": "", "rated_at": None, "rate_error": "", "rate_details": [], "decimals": None}


@pytest.fixture
def node() -> Iterator[NodeServer]:
    """A node whose contracts all answer 6, which are good decimals and nothing else."""
    with node_answering(eth_call={"result": f"0x{6:064x}"}) as node:
        yield node


def other_address(number: int) -> str:
    return f"0x{number:040}"


def seen(token: FeeToken) -> dict[str, Any]:
    """What is noted of a token's price."""
    found: dict[str, Any] = FeeToken.objects.values(*NO_PRICE).get(pk=token.pk)
    return found


def batches(node: NodeServer) -> list[int]:
    """How many contracts were called in each request to a node."""
    return sorted(methods.count("eth_call") for methods in node.methods if "eth_call" in methods)


def test_the_price_of_a_token_is_read_from_its_sources(chain: Chain, deployed: Deployed) -> None:
    relayer_at(chain.url)
    token = factories.fee_token(address=deployed.token_6)
    factories.chainlink_usd_source(token, deployed.token_usd, deployed.native_usd)
    factories.pair_source(token, deployed.pair, deployed.wrapped)
    before = timezone.now()
    assert price_checks.refresh([token]) == {token.pk: ""}
    found = seen(token)
    assert before <= found.pop("rated_at") <= database_now()
    details = found.pop("rate_details")
    # 2481.9375 / 1.0001 by the feeds, 2481.9375 by the pair, and the median of two is half way.
    assert found == {
        "rate_text": "2481.813415533446655334466553344665533447",
        "rate_error": "",
        "decimals": 6,
    }
    feeds, pair = details
    updated_at = chain.call(deployed.native_usd, "latestRoundData()(uint80,int256,uint256,uint256,uint80)")[3]
    assert feeds == {
        "name": "Chainlink, token/USD with native/USD",
        "rate": "2481.689331066893310668933106689331066893",
        "updated_at": min(updated_at, feeds["updated_at"]),
    }
    assert (pair["name"], pair["rate"]) == ("Uniswap v2 pair", "2481.9375")
    assert 0 <= pair["updated_at"] - int(before.timestamp()) < 60


def test_the_tokens_of_a_network_are_read_in_one_batch_and_fail_one_by_one(node: NodeServer) -> None:
    relayer_at(node.url)
    good, stale, silent, empty = (
        factories.fee_token(symbol=f"T{number}", address=other_address(number)) for number in range(4)
    )
    factories.fixed_source(good)
    factories.fixed_source(stale, rate_set_at=timezone.now() - timedelta(days=2))
    factories.chainlink_native_source(silent)
    assert price_checks.refresh([good, stale, silent, empty]) == {
        good.pk: "",
        stale.pk: "T1 on hardhat: the source “Fixed rate” is stale: its rate is older than its age limit.",
        silent.pk: "T2 on hardhat: the source “Chainlink, token/native” did not answer: the token's feed.",
        empty.pk: "T3 on hardhat: it has no price source.",
    }
    assert [seen(token)["rate_text"] for token in (good, stale, silent, empty)] == ["3000", "", "", ""]
    assert seen(good)["decimals"] == 6
    # The feed's aggregator and its bounds; then each token's decimals, and the two calls of a feed.
    assert batches(node) == [1, 2, 6]


def test_many_tokens_are_read_in_several_batches(node: NodeServer) -> None:
    relayer_at(node.url)
    tokens = [factories.fee_token(symbol=f"T{number}", address=other_address(number)) for number in range(12)]
    for token in tokens:
        factories.fixed_source(token)
    assert set(price_checks.refresh(tokens).values()) == {""}
    assert batches(node) == [2, 10]


def test_a_price_that_fails_keeps_the_last_one_with_its_age(node: NodeServer) -> None:
    relayer_at(node.url)
    then = timezone.now() - timedelta(minutes=5)
    last = {
        "rate_text": "3000",
        "rated_at": then,
        "rate_details": [{"name": "Fixed rate", "rate": "3000", "updated_at": 1}],
        "decimals": 6,
    }
    token = factories.fee_token(**last)
    price_checks.refresh([token])
    assert seen(token) == last | {"rate_error": "USDC on hardhat: it has no price source."}
    factories.fixed_source(token, "2999.5")
    price_checks.refresh([token])
    assert seen(token)["rate_error"] == ""
    assert seen(token)["rate_text"] == "2999.5"


def test_the_first_relayer_that_is_not_disabled_has_its_nodes_asked(node: NodeServer) -> None:
    dead = f"http://127.0.0.1:{free_port()}/s3cret"
    relayer_at(node.url, identifier="other", network="sepolia")
    token = factories.fee_token()
    factories.fixed_source(token)
    unreachable = "No node answered: connection failed."
    for changes, reason in (
        (None, NO_RELAYER),
        ({"system_disabled": True, "disabled_reason_type": "NonceSyncFailed"}, unreachable),
    ):
        if changes:
            relayer_at(dead, **changes)
        assert price_checks.refresh([token]) == {token.pk: reason}
        assert seen(token) == NO_PRICE | {"rate_error": reason}
    relayer_at(node.url, identifier="second", paused=True)
    relayer_at(dead, identifier="third")
    assert price_checks.refresh([token]) == {token.pk: ""}


def test_a_network_that_fails_has_a_reason_and_hides_no_price_of_another(node: NodeServer, settings: Settings) -> None:
    relayer_at(f"http://127.0.0.1:{free_port()}", network="sepolia", identifier="dead")
    relayer_at(node.url)
    tokens = [factories.fee_token(network=network) for network in ("sepolia", "hardhat", "gone")]
    for token in tokens:
        factories.fixed_source(token)
    gone = "Unknown network 'gone'. Add it to NETWORKS_FILE."
    assert [*price_checks.refresh(tokens).values()] == ["No node answered: connection failed.", "", gone]
    settings.ENCRYPTION_KEYS = {"2": bytes(range(50, 82))}
    reason = "The RPC URLs of the relayer relayer-1 cannot be decrypted with the configured encryption keys."
    assert price_checks.refresh([FeeToken.objects.get(network="hardhat")]) == {tokens[1].pk: reason}


def test_an_unexpected_failure_of_one_token_is_logged_and_reported(
    node: NodeServer, caplog: pytest.LogCaptureFixture
) -> None:
    relayer_at(node.url)
    tokens = [factories.fee_token(symbol=f"T{number}", address=other_address(number)) for number in range(3)]
    good, unreadable, unknown = tokens
    factories.fixed_source(good)
    # No form takes either of these.
    PriceSource.objects.create(
        token=unreadable, kind="fixed", rate_text="s3cret", rate_set_at=timezone.now(), max_age_seconds=60
    )
    PriceSource.objects.create(token=unknown, kind="oracle")
    assert price_checks.refresh(tokens) == {
        good.pk: "",
        unreadable.pk: price_checks.UNEXPECTED,
        unknown.pk: price_checks.UNEXPECTED,
    }
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "Cannot read the price of T2 on hardhat",
        "Cannot read the price of T1 on hardhat",
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda token: FeeToken.objects.update(address=other_address(7)),
        lambda token: FeeToken.objects.update(network="sepolia"),
        lambda token: FeeToken.objects.update(max_spread_bps=1),
        lambda token: PriceSource.objects.update(rate_text="9"),
        lambda token: PriceSource.objects.all().delete(),
        lambda token: factories.fixed_source(token, "3001"),
    ],
    ids=["address", "network", "spread", "rate", "no source", "one more source"],
)
def test_a_token_changed_concurrently_gets_no_outdated_price(
    node: NodeServer, monkeypatch: pytest.MonkeyPatch, change: Callable[[FeeToken], Any]
) -> None:
    relayer_at(node.url)
    token = factories.fee_token()
    factories.fixed_source(token)
    change_before_storing(monkeypatch, lambda: change(token))
    price_checks.refresh([token])
    assert seen(token) == NO_PRICE


def test_a_token_renamed_or_made_dearer_concurrently_gets_its_price(
    node: NodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    relayer_at(node.url)
    token = factories.fee_token()
    factories.fixed_source(token)

    def change() -> None:
        FeeToken.objects.update(symbol="OTHER", margin_bps=5, enabled=False)
        PriceSource.objects.update(feed_bounds={factories.FEED: {}})

    change_before_storing(monkeypatch, change)
    price_checks.refresh([token])
    assert seen(token)["rate_text"] == "3000"
    assert FeeToken.objects.values("symbol", "margin_bps", "enabled").get() == {
        "symbol": "OTHER",
        "margin_bps": 5,
        "enabled": False,
    }


def test_a_token_deleted_concurrently_is_no_fault(node: NodeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    relayer_at(node.url)
    token = factories.fee_token()
    factories.fixed_source(token)
    change_before_storing(monkeypatch, FeeToken.objects.all().delete)
    assert list(price_checks.refresh([token]).values()) == [""]
    assert not FeeToken.objects.exists()


def change_before_storing(monkeypatch: pytest.MonkeyPatch, change: Callable[[], Any]) -> None:
    """Have something done after the nodes have answered, and before that is written."""
    note = price_checks._store

    def changed(snapshot: price_checks.TokenSnapshot, outcome: Quote | str) -> str:
        change()
        return note(snapshot, outcome)

    monkeypatch.setattr(price_checks, "_store", changed)


@pytest.mark.django_db(transaction=True)
def test_every_minute_prices_of_enabled_tokens_are_read_outside_transactions(
    node: NodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    relayer_at(node.url)
    token = factories.fee_token()
    factories.fixed_source(token)
    off = factories.fee_token(symbol="OFF", address=other_address(1), enabled=False)
    factories.fixed_source(off)
    inside: list[bool] = []

    def noted(function: Any, items: Any) -> Any:
        inside.append(connection.in_atomic_block)
        return map_threads(function, items)

    monkeypatch.setattr(price_checks, "map_threads", noted)
    tasks.read_prices.call_local()
    assert inside == [False]
    assert [seen(one)["rate_text"] for one in (token, off)] == ["3000", ""]
    assert PeriodicRun.objects.get().name == "read_prices"
    # Another worker finds that this minute is taken.
    tasks.read_prices.call_local()
    assert len(inside) == 1
    # The price of one token is read when it was changed.
    FeeToken.objects.update(rate_text="")
    tasks.read_price_now.call_local(off.pk)
    assert [seen(one)["rate_text"] for one in (token, off)] == ["", "3000"]


def fee_token_samples() -> dict[str, float]:
    found = samples(metrics.exposition().decode())
    return {name: value for name, value in found.items() if name.startswith("relayer_fee_token")}


def test_fee_tokens_are_counted_by_state_with_the_age_of_the_oldest_price() -> None:
    assert [*fee_token_samples().values()] == [0] * 6
    now = timezone.now()
    states: list[dict[str, Any]] = [
        {"rated_at": now},
        {"rated_at": now - timedelta(seconds=170)},
        {"rated_at": now - timedelta(seconds=300)},
        {"rated_at": now, "rate_error": "Why."},
        {},
        {"rated_at": now - timedelta(days=1), "enabled": False},
    ]
    for number, state in enumerate(states):
        factories.fee_token(symbol=f"T{number}", address=other_address(number), **state)
    found = fee_token_samples()
    assert 300 <= found.pop("relayer_fee_token_oldest_price_seconds{}") < 360
    assert found == {
        "relayer_fee_tokens{state=ok}": 2,
        "relayer_fee_tokens{state=stale}": 1,
        "relayer_fee_tokens{state=failed}": 1,
        "relayer_fee_tokens{state=not_read_yet}": 1,
        "relayer_fee_tokens{state=off}": 1,
    }


def test_other_metrics_are_shown_while_fee_tokens_cannot_be_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise DatabaseError("it is down")

    monkeypatch.setattr(FeeToken.objects, "order_by", fail)
    found = samples(metrics.exposition().decode())
    assert not [name for name in found if name.startswith("relayer_fee_token")]
    assert found["relayer_task_queue_depth{kind=waiting}"] == 0
    assert "The scrape by FeeTokenCollector failed" in caplog.text


def test_a_price_that_starts_to_fail_is_announced_once_and_when_it_recovers(node: NodeServer) -> None:
    notification = create_notification(events="price.*")
    token = factories.fee_token()
    for outcome in (NO_RELAYER, NO_RELAYER, ""):
        price_checks._announce(FeeToken.objects.get(pk=token.pk), outcome)
        FeeToken.objects.update(rate_error=outcome)
    price_checks.refresh([token])
    bodies = [json.loads(bytes(row.body)) for row in notification.deliveries.order_by("pk")]
    about = {"network": token.network, "symbol": token.symbol}
    assert [(body["type"], body["data"]) for body in bodies] == [
        ("price.failed", about | {"reason": NO_RELAYER}),
        ("price.recovered", about | {"reason": ""}),
        ("price.failed", about | {"reason": NO_RELAYER}),
    ]
