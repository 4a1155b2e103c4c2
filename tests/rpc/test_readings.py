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

from relayers.chain.errors import InsufficientData
from relayers.chain.networks import networks
from relayers.chain.readings import Reading, gather
from relayers.models import Relayer
from rpc import dispatch, errors
from rpc.fees import tokens
from rpc.fees.tokens import Token
from rpc.models import FeeToken
from rpc.relayer_lookup import RpcRelayer
from tests.concurrency import wait_until
from tests.relayers import factories
from tests.rpc.encoded import transfer
from tests.rpc.factories import chainlink_native_source, fee_token, fixed_source
from tests.rpc.fee_node import FeeNode, serve

Post = Callable[..., Any]

PATH = "/api/v1/relayers/relayer-1/rpc"
CALLERS = 64
TRANSFER = transfer()
# A four-thousandth of the coin for a token.
PRICE = 250_000_000_000_000
# 0.00004389 coins at 4000 tokens each.
FEE = {"estimated_fee": "0.17556", "conversion_rate": "4000", "method": "feeEstimate"}
FIRST = ["eth_chainId", "eth_estimateGas", "eth_feeHistory", "eth_call", "eth_call", "eth_call"]
UNREACHABLE = {
    "code": -32000,
    "message": "Nodes unreachable",
    "description": "No node has answered: it has failed by its own account.",
}


@pytest.fixture
def node() -> Iterator[FeeNode]:
    with serve(FeeNode()) as served:
        served.set_feed(PRICE, int(time.time()))
        yield served


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let it be so many seconds after the test began."""
    start = time.monotonic()
    return lambda seconds: monkeypatch.setattr(time, "monotonic", lambda: start + seconds)


@pytest.fixture
def post(client: Client, token: str) -> Post:
    """Ask for an estimate as callers do, with a fee token."""

    def post(fee_token: str = "USDC") -> Any:
        params = {"fee_token": fee_token, "network": "hardhat", "transaction": TRANSFER}
        request = {"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": params}
        headers = {"Authorization": f"Bearer {token}"}
        return client.post(PATH, request, content_type="application/json", headers=headers).json()

    return post


def relayer(node: FeeNode, **changes: Any) -> Relayer:
    return factories.relayer(network="hardhat", rpc_urls=[{"url": node.url, "weight": 100}], **changes)


def estimate(relayer: Relayer, token: str = "USDC") -> dict[str, Any]:
    try:
        params = {"fee_token": token, "network": "hardhat", "transaction": TRANSFER}
        return dispatch.answer(RpcRelayer.of(relayer), "feeEstimate", params)
    finally:
        if threading.current_thread() is not threading.main_thread():
            connection.close()


def test_an_estimate_asks_one_node_once_and_then_only_for_what_is_its_own(
    post: Post, node: FeeNode, django_assert_num_queries: Any
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


def test_what_a_call_needs_of_the_database_is_kept_for_a_moment(
    post: Post, node: FeeNode, settings: Any, at: Callable[[float], None], django_assert_num_queries: Any
) -> None:
    settings.RPC_CACHE_SECONDS = 1
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


@pytest.mark.django_db
def test_decimals_are_read_once_and_kept_for_good(node: FeeNode, at: Callable[[float], None]) -> None:
    made = relayer(node)
    chainlink_native_source(fee_token())
    assert estimate(made) == {"result": FEE}
    assert FeeToken.objects.get().decimals == 18
    at(60)
    assert estimate(made) == {"result": FEE}
    # The feed's own decimals are asked for with its price.
    assert node.asked[-1].count("eth_call") == 2


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
def test_a_failure_is_not_cached_and_what_was_read_beside_it_is(node: FeeNode) -> None:
    made = relayer(node)
    chainlink_native_source(fee_token(decimals=18))
    node.errors["eth_feeHistory"] = {"code": -32601, "message": "the method eth_feeHistory does not exist"}
    assert estimate(made)["error"]["code"] == -32005
    node.errors.clear()
    assert estimate(made) == {"result": FEE}
    # The round and the decimals of the token's feed.
    assert (node.count("eth_feeHistory"), node.count("eth_call")) == (2, 2)


@pytest.mark.django_db
def test_a_node_that_fails_leaves_nothing_to_wait_for(node: FeeNode) -> None:
    made = relayer(node)
    node.errors["eth_estimateGas"] = {"code": -32603, "message": "internal error"}
    assert estimate(made, "ETH") == {"error": UNREACHABLE}
    node.errors.clear()
    assert estimate(made, "ETH")["result"]["estimated_fee"] == "0.00004389"


@pytest.mark.django_db
def test_a_transaction_that_reverts_does_not_keep_others_from_what_was_read_with_it(node: FeeNode) -> None:
    made = relayer(node)
    node.errors["eth_estimateGas"] = {"code": 3, "message": "execution reverted"}
    assert estimate(made, "ETH")["error"]["code"] == -32003
    node.errors.clear()
    assert estimate(made, "ETH")["result"]["estimated_fee"] == "0.00004389"
    assert node.count("eth_feeHistory") == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("network", "chain_id", "seconds"), [("hardhat", 31337, 1), ("polygon", 137, 2), ("sepolia", 11155111, 12)]
)
def test_fees_are_kept_for_a_block(network: str, chain_id: int, seconds: int, at: Callable[[float], None]) -> None:
    params = {"fee_token": "POL" if network == "polygon" else "ETH", "network": network}
    params["transaction"] = transfer(chain_id)
    with serve(FeeNode(chain_id=chain_id)) as node:
        made = factories.relayer(network=network, rpc_urls=[{"url": node.url, "weight": 100}])
        for after, readings in ((0, 1), (seconds - 0.1, 1), (seconds + 0.1, 2), (seconds + 0.2, 2)):
            at(after)
            assert "result" in dispatch.answer(RpcRelayer.of(made), "feeEstimate", params)
            assert (after, node.count("eth_feeHistory")) == (after, readings)


@pytest.mark.django_db
def test_a_price_is_kept_no_longer_than_its_source_trusts_it(node: FeeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(time.time())
    made = relayer(node)
    node.set_feed(PRICE, now - 3_600)
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
def test_nodes_of_another_relayer_have_no_say(node: FeeNode) -> None:
    with serve(FeeNode(base_fee=3_000_000_000)) as other:
        mine = relayer(node)
        theirs = relayer(other, identifier="relayer-2", signer=factories.signer())
        same = relayer(node, identifier="relayer-3", signer=factories.signer())
        fees = [estimate(each, "ETH")["result"]["estimated_fee"] for each in (mine, theirs, same, mine, theirs)]
        # 23100 * (3.6 + 0.1) gwei.
        assert fees == ["0.00004389", "0.00008547", "0.00004389", "0.00004389", "0.00008547"]
        assert (node.count("eth_feeHistory"), other.count("eth_feeHistory")) == (1, 1)


@pytest.mark.django_db
def test_a_price_is_read_anew_where_staff_change_its_source(node: FeeNode) -> None:
    made = relayer(node)
    source = chainlink_native_source(fee_token(decimals=18))
    assert estimate(made) == {"result": FEE}
    source.heartbeat_seconds = 60
    source.save()
    assert estimate(made) == {"result": FEE}
    assert node.count("eth_call") == 4


@pytest.mark.django_db
@pytest.mark.parametrize(("change", "decimals"), [({"network": "sepolia"}, None), ({"decimals": 18}, 18)])
def test_decimals_are_not_kept_for_a_token_that_is_another_by_now(
    change: dict[str, Any], decimals: int | None
) -> None:
    asked = Token.of(fee_token(), [], networks()["hardhat"])
    FeeToken.objects.update(**change)
    tokens.keep_decimals("USDC", asked, 6)
    assert FeeToken.objects.get().decimals == decimals


@pytest.mark.django_db
def test_what_staff_change_while_decimals_are_read_counts_for_the_next_caller(settings: Any) -> None:
    settings.RPC_CACHE_SECONDS = 60
    token, network = fee_token(decimals=None), networks()["hardhat"]
    fixed_source(token)
    asked = tokens.find(network, token.symbol)
    assert asked is not None
    FeeToken.objects.update(enabled=False)
    tokens.keep_decimals(token.symbol, asked, 6)
    with pytest.raises(errors.TokenNotSupported):
        tokens.find(network, token.symbol)


def test_a_bug_in_one_reading_does_not_hide_behind_the_fault_of_another() -> None:
    def refuse(answers: list[Any]) -> Any:
        raise InsufficientData("The node does not say.")

    def crash(answers: list[Any]) -> Any:
        raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        gather([], 31337, {"refused": Reading([], refuse), "broken": Reading([], crash)})
