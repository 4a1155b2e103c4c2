"""How often a node is asked: one batch for an estimate, without what is cached from another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from chain.errors import InsufficientData
from chain.networks import networks
from chain.readings import ChainReading, gather
from relayers.models import Relayer
from rpc import dispatch, errors, relayer_lookup
from rpc.fees import tokens
from rpc.fees.tokens import Token
from rpc.models import FeeToken
from tests.chain.encoded import transfer
from tests.chain.fee_node import DECIMALS, LATEST_ROUND, FeeNode, serve
from tests.concurrency import wait_until
from tests.relayers import factories
from tests.rpc.factories import (
    FEED,
    NATIVE_FEED,
    chainlink_native_source,
    chainlink_usd_source,
    fee_token,
    fixed_source,
)

Post = Callable[..., Any]

PATH = "/api/v1/relayers/relayer-1/rpc"
CALLERS = 64
TRANSFER = transfer()
OTHER_FEED = "0x6666666666666666666666666666666666666666"
# A four-thousandth of the coin for a token.
PRICE = 250_000_000_000_000
# 0.00004389 coins at 4000 tokens each.
FEE = {"estimated_fee": "0.17556", "conversion_rate": "4000", "method": "feeEstimate"}
FIRST = ["eth_chainId", "eth_estimateGas", "eth_feeHistory", *["eth_call"] * 3, "eth_getBlockByNumber"]
At = Callable[[float], None]
UNREACHABLE = {
    "code": -32000,
    "message": "Nodes unreachable",
    "description": "No node answered: returned an internal error.",
}


@pytest.fixture
def node() -> Iterator[FeeNode]:
    with serve(FeeNode()) as served:
        served.set_feed(PRICE, int(time.time()))
        yield served


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> At:
    """Let it be so many seconds after the test began, at the beginning of a second, and let time stand still."""
    start, began = time.monotonic(), int(time.time())

    def at(seconds: float) -> None:
        monkeypatch.setattr(time, "monotonic", lambda: start + seconds)
        monkeypatch.setattr(time, "time", lambda: began + seconds)

    at(0)
    return at


@pytest.fixture
def post(client: Client, token: str) -> Post:
    """Ask for an estimate as callers do, with a fee token; or for a quote."""

    def post(fee_token: str = "USDC", **of_quote: Any) -> Any:
        method, own = ("feeQuote", of_quote) if of_quote else ("feeEstimate", {"fee_token": fee_token})
        params = {"network": "hardhat", "transaction": TRANSFER, **own}
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"Authorization": f"Bearer {token}"}
        return client.post(PATH, request, content_type="application/json", headers=headers).json()

    return post


def relayer(node: FeeNode, **changes: Any) -> Relayer:
    return factories.relayer(network="hardhat", rpc_urls=[{"url": node.url, "weight": 100}], **changes)


def estimate(relayer: Relayer, token: str = "USDC", transaction: str = TRANSFER) -> dict[str, Any]:
    try:
        params = {"fee_token": token, "network": relayer.network, "transaction": transaction}
        return dispatch.answer(relayer, "feeEstimate", params)
    finally:
        if threading.current_thread() is not threading.main_thread():
            connection.close()


def test_an_estimate_asks_one_node_once_and_then_only_for_what_is_its_own(
    post: Post, node: FeeNode, at: At, django_assert_num_queries: Any
) -> None:
    relayer(node)
    chainlink_native_source(fee_token())
    assert post() == {"jsonrpc": "2.0", "id": "1", "result": FEE}
    assert node.asked == [FIRST]
    # The relayer, and the token with its sources.
    with django_assert_num_queries(2):
        assert post() == {"jsonrpc": "2.0", "id": "1", "result": FEE}
    assert node.asked == [FIRST, ["eth_estimateGas"]]
    with django_assert_num_queries(1):
        assert post("ETH")["result"]["estimated_fee"] == "0.00004389"
    assert node.asked == [FIRST, ["eth_estimateGas"], ["eth_estimateGas"]]


def test_a_quote_in_many_tokens_asks_one_node_once_and_for_each_feed_once(
    post: Post, node: FeeNode, at: At, settings: Any, django_assert_num_queries: Any
) -> None:
    settings.EXTENSIONS = ["quotes"]
    relayer(node)
    feeds = {"DAI": FEED, "USDC": OTHER_FEED}
    for symbol, feed in feeds.items():
        # Both with the same feed of the native coin.
        chainlink_usd_source(fee_token(symbol=symbol, address=feed, decimals=18), feed, NATIVE_FEED)
    # The access token, the relayer, and the sources with their tokens.
    with django_assert_num_queries(3):
        answer = post(speed="fast")
    fees = {found["fee_token"]: found["conversion_rate"] for found in answer["result"]["tokens"]}
    assert fees == dict.fromkeys(feeds, "1")
    assert node.asked == [
        ["eth_chainId", "eth_estimateGas", "eth_feeHistory", *["eth_call"] * 6, "eth_getBlockByNumber"]
    ]
    asked = [(params[0]["to"], params[0]["data"]) for method, params in node.params if method == "eth_call"]
    assert sorted(asked) == sorted(
        (feed, data) for feed in (FEED, OTHER_FEED, NATIVE_FEED) for data in (DECIMALS, LATEST_ROUND)
    )
    # Whatever is asked for next of the same block is known: the relayer, and the sources with their tokens.
    with django_assert_num_queries(2):
        post(fee_tokens=["DAI", "USDC"])
    assert node.asked[1:] == [["eth_estimateGas"]]
    with django_assert_num_queries(2):
        assert post("USDC")["result"]["conversion_rate"] == "1"
    assert node.asked[2:] == [["eth_estimateGas"]]


def test_what_a_call_needs_of_the_database_is_kept_for_a_moment(
    post: Post, node: FeeNode, monkeypatch: pytest.MonkeyPatch, at: At, django_assert_num_queries: Any
) -> None:
    monkeypatch.setattr(relayer_lookup, "CACHE_SECONDS", 1)
    relayer(node)
    chainlink_native_source(fee_token(decimals=18))
    at(0)
    assert post()["result"] == FEE
    Relayer.objects.update(policies={"whitelist_receivers": []})
    FeeToken.objects.update(enabled=False)
    at(0.9)
    with django_assert_num_queries(0):
        assert post()["result"] == FEE
    at(1.1)
    assert post()["error"]["code"] == -32004
    Relayer.objects.update(policies={})
    at(2.2)
    assert post()["error"]["code"] == -32001


def test_whoever_waits_for_a_node_holds_no_database_connection(
    transactional_db: None, node: FeeNode, settings: Any
) -> None:
    made = relayer(node)
    chainlink_native_source(fee_token(decimals=18))
    node.may_answer.clear()
    # PostgreSQL's pool has fewer connections than there are callers, and all of them wait at once.
    with ThreadPoolExecutor(CALLERS) as pool:
        calls = [pool.submit(estimate, made) for _ in range(CALLERS)]
        wait_until(lambda: len(node.asked) == CALLERS)
        node.may_answer.set()
        assert [call.result() for call in calls] == [{"result": FEE}] * CALLERS


@pytest.mark.django_db
def test_a_failure_is_not_cached_and_what_was_read_beside_it_is(node: FeeNode, at: At) -> None:
    made = relayer(node)
    chainlink_native_source(fee_token(decimals=18))
    node.errors["eth_feeHistory"] = {"code": -32601, "message": "the method eth_feeHistory does not exist"}
    assert estimate(made)["error"]["code"] == -32005
    node.errors.clear()
    assert estimate(made) == {"result": FEE}
    # The round and the decimals of the token's feed.
    assert (node.count("eth_feeHistory"), node.count("eth_call")) == (2, 2)


@pytest.mark.django_db
def test_a_transaction_that_reverts_does_not_keep_others_from_what_was_read_with_it(node: FeeNode, at: At) -> None:
    made = relayer(node)
    node.errors["eth_estimateGas"] = {"code": -32603, "message": "internal error"}
    assert estimate(made, "ETH") == {"error": UNREACHABLE}
    node.errors["eth_estimateGas"] = {"code": 3, "message": "execution reverted"}
    assert estimate(made, "ETH")["error"]["code"] == -32003
    node.errors.clear()
    assert estimate(made, "ETH")["result"]["estimated_fee"] == "0.00004389"
    # Of the call that failed, and of the one that reverted.
    assert node.count("eth_feeHistory") == 2


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("network", "chain_id", "age", "seconds"),
    [
        ("polygon", 137, 1, 1),
        ("sepolia", 11155111, 5, 7),
        # A clock of the chain that is ahead of ours makes no block last longer.
        ("sepolia", 11155111, -60, 12),
    ],
)
def test_the_values_of_a_block_are_cached_until_the_next_is_due(
    network: str, chain_id: int, age: int, seconds: float, at: At
) -> None:
    with serve(FeeNode(chain_id=chain_id, head_time=int(time.time()) - age)) as node:
        made = factories.relayer(network=network, rpc_urls=[{"url": node.url, "weight": 100}])
        for after, count in ((0, 1), (seconds - 0.1, 1), (seconds + 0.1, 2)):
            at(after)
            assert "result" in estimate(made, "POL" if network == "polygon" else "ETH", transfer(chain_id))
            asked = (node.count("eth_feeHistory"), node.count("eth_getBlockByNumber"))
            assert (after, *asked) == (after, count, count)


@pytest.mark.django_db
def test_a_price_is_kept_no_longer_than_its_source_trusts_it(node: FeeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(time.time())
    made = relayer(node)
    node.set_feed(PRICE, now - 3_960)
    chainlink_native_source(fee_token(decimals=18), heartbeat_seconds=3_600)
    monkeypatch.setattr(time, "time", lambda: now)
    assert estimate(made) == {"result": FEE}
    monkeypatch.setattr(time, "time", lambda: now + 1)
    stale = (
        "USDC on hardhat: the source “Chainlink, token/native” is stale: the token's feed is older than its heartbeat."
    )
    error = {"code": -32002, "message": "Price unavailable", "description": stale}
    assert estimate(made) == {"error": error}


@pytest.mark.django_db
def test_nodes_of_another_relayer_have_no_say(node: FeeNode, at: At) -> None:
    with serve(FeeNode(base_fee=2_000_000_000)) as other:
        mine = relayer(node)
        theirs = relayer(other, identifier="relayer-2", signer=factories.signer())
        same = relayer(node, identifier="relayer-3", signer=factories.signer())
        fees = [estimate(each, "ETH")["result"]["estimated_fee"] for each in (mine, theirs, same, mine, theirs)]
        # 21000 * (2.4 + 0.11) gwei.
        assert fees == ["0.00004389", "0.00005271", "0.00004389", "0.00004389", "0.00005271"]
        assert (node.count("eth_feeHistory"), other.count("eth_feeHistory")) == (1, 1)


@pytest.mark.django_db
@pytest.mark.parametrize(("change", "decimals"), [({"network": "sepolia"}, None), ({"decimals": 18}, 18)])
def test_decimals_are_not_kept_for_a_token_that_is_another_by_now(
    change: dict[str, Any], decimals: int | None
) -> None:
    requested = Token.from_row(fee_token(), [], networks()["hardhat"])
    FeeToken.objects.update(**change)
    tokens.store_decimals(requested, 6)
    assert FeeToken.objects.get().decimals == decimals


@pytest.mark.django_db
def test_what_staff_change_while_decimals_are_read_counts_for_the_next_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relayer_lookup, "CACHE_SECONDS", 60)
    token, network = fee_token(decimals=None), networks()["hardhat"]
    fixed_source(token)
    requested = tokens.find_all(network, [token.symbol])[token.symbol]
    assert isinstance(requested, tokens.Token)
    FeeToken.objects.update(enabled=False)
    tokens.store_decimals(requested, 6)
    assert isinstance(tokens.find_all(network, [token.symbol])[token.symbol], errors.TokenNotSupported)


def test_a_bug_in_one_reading_does_not_hide_behind_the_fault_of_another(node: FeeNode) -> None:
    def refuse(answers: list[Any]) -> Any:
        raise InsufficientData("The node does not say.")

    def crash(answers: list[Any]) -> Any:
        raise TypeError("a bug")

    readings = {"refused": ChainReading([], refuse), "broken": ChainReading([], crash)}
    with pytest.raises(TypeError, match="a bug"):
        gather([(node.url, 100)], networks()["hardhat"], readings)
