"""Whatever a node answers, a caller gets a fee or an error that is documented, and never an internal one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from chain.errors import InsufficientData
from chain.fees import fee_history
from chain.fees.fee_history import REQUESTED_PERCENTILES, SPEEDS, FeeHistory
from chain.networks import BaseFeeRule, Network, NetworkKind
from tests.amounts import amount
from tests.chain.answering_node import ANSWERS, HISTORY, local_network
from tests.chain.hostile import (
    NETWORKS,
    POLICIES,
    STRANGE_ANSWERS,
    TRANSACTIONS,
    HostileNode,
    answers_to,
    codes,
    hostile_node,
    leaves,
)
from tests.rpc.factories import (
    FEED,
    NATIVE_FEED,
    TOKEN,
    chainlink_native_source,
    chainlink_usd_source,
    fee_token,
    fixed_source,
    pair_source,
)

STRANGE: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "0",
    "0x",
    "0x0",
    "0x-1",
    "-0x1",
    "0xzz",
    "0x 1",
    "0x1\n",
    "0x1_0",
    "0x" + "f" * 64,
    "0x" + "f" * 65,
    "0x" + "f" * 100_000,
    "0x" + "00" * 31,
    "0x" + "00" * 32,
    "0x" + "ff" * 32,
    "0x" + "ff" * 160,
    "0x" + "00" * 160,
    "0x" + "00" * 31 + "20" + "ff" * 32,
    "é\u2028\0",
    "1/0",
    "1e999999999",
    "nan",
    [],
    [None],
    [[]],
    {},
    {"data": "0x"},
]
RESULTS: list[dict[str, Any]] = [{"result": value} for value in STRANGE]
DATA: list[Any] = [None, 5, [], {}, {"data": {"data": "0x"}}, "zz", "0x1", "0x08c379a0", "0x4e487b71" + "ff" * 32]
ERRORS: list[dict[str, Any]] = [
    {"error": {"code": code, "message": message, "data": data}}
    for code, message in [(3, "execution reverted"), (-32000, "é\0"), (0, ""), (True, "insufficient funds")]
    for data in DATA
]
SYMBOLS = ("PAIR", "USD", "NATIVE")
DOCUMENTED = {-32000, -32002, -32003, -32004, -32005}


@pytest.fixture
def registered_tokens(db: None) -> None:
    """Register a token of each kind of source that asks the node."""
    pair = fee_token(symbol="PAIR", address=TOKEN)
    pair_source(pair)
    fixed_source(pair)
    chainlink_usd_source(fee_token(symbol="USD", address=FEED))
    chainlink_native_source(fee_token(symbol="NATIVE", address=NATIVE_FEED))


@pytest.fixture
def node(settings: Any) -> Iterator[HostileNode]:
    settings.EXTENSIONS = ["quotes"]
    with hostile_node() as node:
        yield node


@pytest.mark.django_db
@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("method", "kind", "token", "policies"),
    [
        ("eth_getBlockByNumber", "none", "ETH", {}),
        ("eth_estimateGas", "none", "ETH", {}),
        ("eth_feeHistory", "none", "ETH", {}),
        ("eth_gasPrice", "none", "ETH", {"eip1559_pricing": False}),
        ("eth_baseFee", "none", "ETH", {}),
        ("eth_blobBaseFee", "none", "ETH", {}),
        ("eth_chainId", "none", "ETH", {}),
        ("eth_call", "none", "PAIR", {}),
        ("eth_call", "none", "USD", {}),
        ("eth_call", "none", "NATIVE", {}),
        ("eth_call", "op-stack", "ETH", {}),
        ("eth_call", "mantle", "ETH", {}),
        ("eth_call", "arbitrum", "ETH", {}),
        ("eth_call", "scroll", "ETH", {}),
        ("linea_estimateGas", "linea", "ETH", {}),
        ("zks_estimateFee", "zksync", "ETH", {}),
    ],
)
def test_a_strange_answer_gives_a_documented_code(
    node: HostileNode, registered_tokens: None, method: str, kind: str, token: str, policies: dict[str, Any]
) -> None:
    rule = BaseFeeRule.ETH_BASE_FEE if method == "eth_baseFee" else BaseFeeRule.EIP_1559
    node.network = local_network(kind=NetworkKind(kind), base_fee_rule=rule)
    seen = {}
    for answer in RESULTS + ERRORS:
        node.answers = ANSWERS | {method: answer}
        told = node.ask("feeEstimate", policies, fee_token=token, transaction=TRANSACTIONS["with a blob"])
        seen[json.dumps(answer)[:100]] = told["error"]["code"] if "error" in told else "result"
    assert {answer: code for answer, code in seen.items() if code not in DOCUMENTED | {"result"}} == {}
    assert len(seen) > len(RESULTS)
    assert method in node.asked


@pytest.mark.parametrize("name", ["baseFeePerGas", "gasUsedRatio", "reward"])
def test_a_strange_part_of_a_fee_history_is_refused_or_read(name: str) -> None:
    forms = ((value, [value], [value, value], [[value]], [[value] * 7]) for value in STRANGE)
    for strange in chain.from_iterable(forms):
        try:
            found = fee_history.readings(local_network())["history"].read([HISTORY | {name: strange}])
        except InsufficientData:
            continue
        assert isinstance(found, FeeHistory)
        assert min(found.base_fee, *map(found.priority_fee, REQUESTED_PERCENTILES)) >= 0


@pytest.mark.django_db
@pytest.mark.one_engine
@hypothesis_settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=amount(400, 2_000)
)
@given(
    answers=STRANGE_ANSWERS,
    network=NETWORKS,
    policies=POLICIES,
    transaction=st.sampled_from(list(TRANSACTIONS)),
    speed=st.sampled_from([None, *SPEEDS]),
)
def test_whatever_a_node_answers_a_caller_gets_whole_numbers_or_a_documented_code(
    node: HostileNode,
    answers: dict[str, Any],
    network: Network,
    policies: dict[str, Any],
    transaction: str,
    speed: str | None,
) -> None:
    node.answers, node.network = ANSWERS | answers, network
    own = {"transaction": TRANSACTIONS[transaction]}
    estimate = node.ask("feeEstimate", policies, fee_token="ETH", **own)
    quote = node.ask("feeQuote", policies, fee_tokens=["ETH"], **own, **({"speed": speed} if speed else {}))
    event("result" if "result" in quote else str(quote["error"]["code"]))
    for body in (estimate, quote):
        assert set(codes(body)) <= DOCUMENTED
        assert {type(leaf) for leaf in leaves(body)} <= {str, int}
    # Both rest on the same, whatever it is.
    assert ("result" in estimate) == ("result" in quote)
    if speed is None and "result" in estimate:
        assert estimate["result"]["estimated_fee"] == quote["result"]["tokens"][0]["maximum"]


@pytest.mark.django_db
@pytest.mark.one_engine
@hypothesis_settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=amount(100, 500)
)
@given(answer=answers_to("eth_call"))
def test_whatever_feeds_answer_a_token_has_a_whole_fee_or_an_error_of_its_own(
    node: HostileNode, answer: dict[str, Any], registered_tokens: None
) -> None:
    node.answers = ANSWERS | {"eth_call": answer}
    for body in (
        node.ask("feeQuote", {}, transaction=TRANSACTIONS["unsigned"]),
        *(node.ask("feeEstimate", {}, fee_token=each, transaction=TRANSACTIONS["unsigned"]) for each in SYMBOLS),
    ):
        assert set(codes(body)) <= DOCUMENTED
        assert {type(leaf) for leaf in leaves(body)} <= {str, int}
