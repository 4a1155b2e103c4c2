"""The extension `quotes`: `feeQuote` on the path of the JSON-RPC call."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from tests.api import Answer, Api
from tests.chain.fee_node import FeeNode
from tests.contract import bodies
from tests.contract.rpc_calls import CALL, PATH, TRANSFER, estimate, node, relayer
from tests.rpc.factories import FEED, PAIR, TOKEN, chainlink_native_source, fee_token, fixed_source, pair_source

__all__ = ["node"]

NOTHING = {"expected": "0", "maximum": "0"}
# A four-thousandth of the coin for a token.
PRICE = 250_000_000_000_000


@pytest.fixture(autouse=True)
def quotes(settings: Settings) -> None:
    settings.EXTENSIONS = ["quotes"]


def quote(api: Api, **params: Any) -> Answer:
    given = {"network": "hardhat", "transaction": TRANSFER} | params
    return api.post(PATH, CALL | {"method": "feeQuote", "params": given})


def moment(timestamp: int) -> str:
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")


def test_a_quote_says_what_a_fee_rests_on(api: Api, node: FeeNode) -> None:
    relayer(node)
    fixed_source(fee_token(margin_bps=150), "3000.5", rate_set_at=timezone.now() - timedelta(hours=1))
    # Ahead of our clock, so that it is not over when the answer is written.
    node.head_time = int(time.time()) + 100
    answer = quote(api)
    result: dict[str, Any] = {
        "method": "feeQuote",
        "network": "hardhat",
        "block_number": "10",
        "block_time": moment(node.head_time),
        "valid_until": moment(node.head_time + 1),
        "gas": {"estimate": "21000", "buffer": "0", "expected": "21000", "maximum": "21000"},
        "gas_price": {
            "base_fee": "1650000000",
            "base_fee_source": "eth_feeHistory",
            "priority_fee": "110000000",
            "expected": "1760000000",
            "maximum": "2090000000",
        },
        "gas_fee": {"expected": "36960000000000", "maximum": "43890000000000"},
        "l1_fee": NOTHING,
        "operator_fee": NOTHING,
        "blob_fee": NOTHING,
        "native": {"symbol": "ETH", "decimals": 18, "expected": "36960000000000", "maximum": "43890000000000"},
        "tokens": [
            {
                "fee_token": "USDC",
                "symbol": "USDC",
                "address": TOKEN,
                "decimals": 6,
                # 0.00003696 and 0.00004389 coins at 3000.5, and 1.5% of that.
                "expected": "0.112562",
                "maximum": "0.133668",
                "conversion_rate": "3000.5",
                "margin_bps": 150,
                "sources": [{"name": "Fixed rate", "rate": "3000.5", "age_seconds": 3600}],
            }
        ],
    }
    body = answer.body
    # It may be a second later by now.
    age = body["result"]["tokens"][0]["sources"][0]["age_seconds"]
    assert age in range(3600, 3660)
    result["tokens"][0]["sources"][0]["age_seconds"] = age
    assert (answer.status, body) == (200, bodies.rpc_result(result))


def test_the_buffer_and_the_margins_are_in_the_maximum_alone(api: Api, node: FeeNode) -> None:
    relayer(node)
    node.gas = 50_001
    result = quote(api, fee_tokens=[]).body["result"]
    assert result["gas"] == {"estimate": "50001", "buffer": "5001", "expected": "50001", "maximum": "55002"}
    # 50001 * 1.76 gwei, and 55001.1 * 2.09 gwei.
    assert result["native"]["expected"] == "88001760000000"
    assert result["native"]["maximum"] == "114952299000000"
    assert result["tokens"] == []


def test_only_the_requested_tokens_are_quoted_and_one_without_a_price_affects_no_other(
    api: Api, node: FeeNode
) -> None:
    relayer(node)
    fixed_source(fee_token(), "3000.5")
    pair_source(fee_token(symbol="SPOT", address=PAIR))
    fee_token(symbol="BARE", address=FEED)
    tokens = quote(api, fee_tokens=["ETH", TOKEN.lower(), "SPOT", "DOGE"]).body["result"]["tokens"]
    assert [(each["fee_token"], each.get("symbol"), each.get("maximum"), each.get("error")) for each in tokens] == [
        ("ETH", "ETH", "0.00004389", None),
        (TOKEN.lower(), "USDC", "0.131692", None),
        (
            "SPOT",
            None,
            None,
            {
                "code": -32002,
                "message": "Price unavailable",
                "description": "SPOT on hardhat: pairs alone cannot set a price: add a source of another kind.",
            },
        ),
        (
            "DOGE",
            None,
            None,
            {
                "code": -32001,
                "message": "Token not supported",
                "description": "Fees cannot be quoted in this token on hardhat: it is not registered or has no price "
                "source. Use one of: ETH, SPOT, USDC.",
            },
        ),
    ]
    # One without a source is not supported, and not among all.
    assert [(each["fee_token"], "error" in each) for each in quote(api).body["result"]["tokens"]] == [
        ("SPOT", True),
        ("USDC", False),
    ]


def test_a_hundred_unknown_tokens_are_two_queries(api: Api, node: FeeNode, django_assert_num_queries: Any) -> None:
    relayer(node)
    quote(api, fee_tokens=[])
    names = [f"T{number}" for number in range(99)] + [f"0x{1:040x}"]
    # The relayer, the tokens, and the symbols that the errors list.
    with django_assert_num_queries(3):
        tokens = quote(api, fee_tokens=names).body["result"]["tokens"]
    assert [(each["fee_token"], each["error"]["code"]) for each in tokens] == [(name, -32001) for name in names]


def test_all_tokens_are_one_request_to_the_node_and_a_shared_feed_is_asked_for_once(
    api: Api, node: FeeNode, django_assert_num_queries: Any
) -> None:
    relayer(node)
    # What a block told is kept until the next one is due: not between the two quotes.
    node.head_time = int(time.time()) + 5
    node.set_feed(PRICE, int(time.time()))
    for number in range(20):
        chainlink_native_source(fee_token(symbol=f"T{number:02}", address=f"0x{number:040x}", decimals=18))
    quote(api, fee_tokens=[])
    node.asked.clear()
    # The relayer, and the sources with their tokens.
    with django_assert_num_queries(2):
        tokens = quote(api).body["result"]["tokens"]
    assert {each["maximum"] for each in tokens} == {"0.17556"}
    assert len(tokens) == 20
    assert [sorted(asked) for asked in node.asked] == [["eth_call", "eth_call", "eth_estimateGas"]]


def test_a_speed_is_a_percentile_of_priority_fees(api: Api, node: FeeNode) -> None:
    relayer(node)
    # The node's rewards are one wei apart, and the one below its `tip` is the lowest.
    for speed, priority_fee in {"safeLow": -1, "average": 1, "fast": 4, "fastest": 5}.items():
        result = quote(api, speed=speed).body["result"]
        assert (speed, result["gas_price"]["priority_fee"]) == (speed, str(node.tip + priority_fee))


def test_without_a_speed_the_maximum_is_what_an_estimate_says_in_the_same_block(api: Api, node: FeeNode) -> None:
    relayer(node)
    node.gas = 77_777
    fixed_source(fee_token(margin_bps=37), "3000.123456789")
    (token,) = quote(api).body["result"]["tokens"]
    estimated = estimate(api, fee_token="USDC").body["result"]
    assert (token["maximum"], token["conversion_rate"]) == (estimated["estimated_fee"], estimated["conversion_rate"])


def test_where_the_node_names_one_price_there_is_no_base_fee(api: Api, node: FeeNode) -> None:
    relayer(node, policies={"eip1559_pricing": False})
    price = quote(api).body["result"]["gas_price"]
    assert price == {"expected": "1760000000", "maximum": "1760000000"}


def test_bad_params_are_refused(api: Api, node: FeeNode) -> None:
    relayer(node)
    cases: list[tuple[str, Any, str]] = [
        ("speed", "slow", "speed: must be one of: safeLow, average, fast, fastest"),
        ("speed", None, "speed: null is not allowed here"),
        ("fee_tokens", "ETH", "fee_tokens: a list is required"),
        ("fee_tokens", [1], "fee_tokens[0]: a string is required"),
        ("fee_tokens", ["ETH"] * 101, "fee_tokens: at most 100 entries are allowed"),
        ("fee_token", "ETH", "fee_token: unknown field"),
        ("network", "sepolia", "network: must be hardhat or evm"),
    ]
    for name, value, description in cases:
        refused = bodies.rpc_error(-32602, "Invalid params", description)
        assert quote(api, **{name: value}).body == refused
    assert node.asked == []


def test_a_transaction_that_would_revert_has_no_quote(api: Api, node: FeeNode) -> None:
    relayer(node)
    node.errors["eth_estimateGas"] = {"code": 3, "message": "execution reverted", "data": "0x"}
    reason = "The transaction would revert: no reason given."
    assert quote(api).body == bodies.rpc_error(-32003, "Execution reverted", reason)
