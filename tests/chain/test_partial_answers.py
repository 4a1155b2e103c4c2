"""There is no quote from a part of what was asked for, but where the part may be missing."""

from __future__ import annotations

import time
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from chain.networks import BaseFeeRule, NetworkKind
from tests.chain.answering_node import ANSWERS, HEAD, HISTORY, local_network
from tests.chain.test_hostile_nodes import TRANSACTIONS, HostileNode, node
from tests.rpc.factories import FEED, TOKEN, chainlink_native_source, fee_token, fixed_source

__all__ = ["node"]

pytestmark = [pytest.mark.django_db, pytest.mark.one_engine]

NO_METHOD = {"error": {"code": -32601, "message": "the method does not exist"}}
REVERTED = {"error": {"code": 3, "message": "execution reverted"}}
COMMON = {"eth_chainId", "eth_getBlockByNumber", "eth_blobBaseFee"}
FEES = COMMON | {"eth_estimateGas", "eth_feeHistory"}
# What an estimate of a transaction with a blob asks of each kind of network.
ASKED: dict[str, set[str]] = {
    "none": FEES,
    "op-stack": FEES | {"eth_call"},
    "mantle": FEES | {"eth_call"},
    "arbitrum": FEES | {"eth_call"},
    "scroll": FEES | {"eth_call"},
    "linea": COMMON | {"linea_estimateGas"},
    "zksync": COMMON | {"zks_estimateFee", "eth_feeHistory"},
}
# What is for display alone.
OPTIONAL = {("arbitrum", "eth_call")}


def selector(signature: str) -> str:
    return f"0x{keccak(text=signature)[:4].hex()}"


def has_fee(node: HostileNode, policies: dict[str, Any] | None = None, token: str = "ETH") -> bool:
    """Return whether a caller gets a fee: by both methods, or by neither."""
    transaction = {"transaction": TRANSACTIONS["with a blob"]}
    estimate = node.ask("feeEstimate", policies or {}, fee_token=token, **transaction)
    quote = node.ask("feeQuote", policies or {}, fee_tokens=[token], **transaction)
    quoted = "result" in quote and "error" not in quote["result"]["tokens"][0]
    assert quoted == ("result" in estimate)
    return quoted


@pytest.mark.parametrize("kind", ASKED)
def test_every_kind_asks_what_it_asks(node: HostileNode, kind: str) -> None:
    node.network = local_network(kind=NetworkKind(kind))
    assert has_fee(node)
    assert node.asked == ASKED[kind]


@pytest.mark.parametrize(("kind", "method"), [(kind, method) for kind in ASKED for method in sorted(ASKED[kind])])
@pytest.mark.parametrize("answer", [NO_METHOD, REVERTED, {"result": None}])
def test_without_one_of_the_answers_there_is_no_fee(
    node: HostileNode, kind: str, method: str, answer: dict[str, Any]
) -> None:
    node.network = local_network(kind=NetworkKind(kind))
    node.answers = ANSWERS | {method: answer}
    assert has_fee(node) == ((kind, method) in OPTIONAL)


@pytest.mark.parametrize("answer", [NO_METHOD, REVERTED, {"result": None}])
@pytest.mark.parametrize(
    ("rule", "policies", "method"),
    [
        ("eth_baseFee", {}, "eth_baseFee"),
        ("none", {}, "eth_gasPrice"),
        ("eip-1559", {"eip1559_pricing": False}, "eth_gasPrice"),
    ],
)
def test_without_the_price_that_is_asked_for_there_is_no_fee(
    node: HostileNode, rule: str, policies: dict[str, Any], method: str, answer: dict[str, Any]
) -> None:
    node.network = local_network(base_fee_rule=BaseFeeRule(rule))
    assert has_fee(node, policies)
    node.answers = ANSWERS | {method: answer}
    assert not has_fee(node, policies)


def test_only_the_operator_fee_before_isthmus_may_be_missing_on_the_op_stack(
    node: HostileNode,
) -> None:
    node.network = local_network(kind=NetworkKind.OP_STACK)
    operator_fee = selector("getOperatorFee(uint256)")
    for missing in (NO_METHOD, REVERTED, {"result": "0x"}):
        node.contracts = {selector("getL1Fee(bytes)"): missing}
        assert not has_fee(node)
        node.contracts = {operator_fee: missing}
        assert has_fee(node) == (missing == REVERTED)
        # At one amount of gas alone it is no answer.
        node.contracts = {operator_fee + f"{0:064x}": missing}
        assert not has_fee(node)


def test_mantles_fee_is_none_without_its_ratio(node: HostileNode) -> None:
    node.network = local_network(kind=NetworkKind.MANTLE)
    for missing in (NO_METHOD, REVERTED, {"result": "0x"}):
        node.contracts = {selector("tokenRatio()"): missing}
        assert not has_fee(node)


@pytest.mark.parametrize(
    ("method", "part", "is_optional"),
    [
        *(("eth_getBlockByNumber", part, part == "baseFeePerGas") for part in HEAD),
        *(("eth_feeHistory", part, part in {"reward", "oldestBlock"}) for part in HISTORY),
    ],
)
def test_without_a_part_of_the_head_or_the_history_there_is_no_fee(
    node: HostileNode, method: str, part: str, is_optional: bool
) -> None:
    whole = ANSWERS[method]["result"]
    for result in ({name: value for name, value in whole.items() if name != part}, whole | {part: None}):
        node.answers = ANSWERS | {method: {"result": result}}
        assert has_fee(node) == is_optional


@pytest.mark.parametrize("part", ["baseFeePerGas", "gasUsed", "gasLimit"])
def test_where_the_next_base_fee_is_computed_every_part_of_the_head_is_needed(node: HostileNode, part: str) -> None:
    node.answers = ANSWERS | {"eth_feeHistory": {"result": HISTORY | {"baseFeePerGas": ["0x64"]}}}
    assert has_fee(node)
    node.answers["eth_getBlockByNumber"] = {"result": HEAD | {part: None}}
    assert not has_fee(node)


@pytest.mark.parametrize(
    ("kind", "method", "part"),
    [
        ("linea", "linea_estimateGas", "gasLimit"),
        ("linea", "linea_estimateGas", "baseFeePerGas"),
        ("linea", "linea_estimateGas", "priorityFeePerGas"),
        ("zksync", "zks_estimateFee", "gas_limit"),
    ],
)
def test_without_a_part_of_what_a_network_names_at_once_there_is_no_fee(
    node: HostileNode, kind: str, method: str, part: str
) -> None:
    node.network = local_network(kind=NetworkKind(kind))
    whole = ANSWERS[method]["result"]
    node.answers = ANSWERS | {method: {"result": {name: each for name, each in whole.items() if name != part}}}
    assert not has_fee(node)


@pytest.mark.parametrize("missing", [NO_METHOD, REVERTED, {"result": "0x"}, {"result": None}])
def test_without_one_of_the_answers_to_its_price_a_token_has_no_fee_and_others_have(
    node: HostileNode, missing: dict[str, Any]
) -> None:
    chainlink_native_source(fee_token(symbol="FEED", address=FEED), FEED)
    fixed_source(fee_token(symbol="FIXED", address=TOKEN, decimals=6))
    now = int(time.time())
    latest = encode(["uint80", "int256", "uint256", "uint256", "uint80"], [1, 10**18, now, now, 1])
    good = {
        selector("latestRoundData()"): {"result": f"0x{latest.hex()}"},
        selector("decimals()"): {"result": f"0x{18:064x}"},
    }
    node.contracts = good
    assert has_fee(node, token="FEED")
    for part in good:
        node.contracts = good | {part: missing}
        assert not has_fee(node, token="FEED")
        assert has_fee(node, token="FIXED")
