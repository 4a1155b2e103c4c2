"""Whatever a node answers, a caller gets a fee or an error that is documented, and never an internal one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from hypothesis import HealthCheck, event, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from chain.fees.fee_history import SPEEDS
from chain.networks import BaseFeeRule, Network, NetworkKind
from chain.nodes import attempts
from chain.nodes.answers import read_answers
from chain.nodes.attempts import Call
from relayer_service.database import ttl_cache
from relayers.models import Relayer
from rpc import dispatch
from rpc.fees import quote
from tests.amounts import amount
from tests.chain import encoded
from tests.chain.answering_node import ANSWERS, HEAD, HISTORY, local_network, unsigned, unsigned_with_blobs
from tests.relayers.factories import ADDRESS
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

pytestmark = [pytest.mark.django_db, pytest.mark.one_engine]

MAX = 2**256 - 1
# Of one that can be included at the fees of ANSWERS.
PRICES = {"maxFeePerGas": 10**9, "maxPriorityFeePerGas": 10}
TRANSACTIONS = {
    "unsigned": unsigned(),
    "with a blob": unsigned_with_blobs(1),
    "signed": encoded.text(encoded.signed(2, **PRICES)),
    "signed legacy": encoded.text(encoded.signed(0)),
    "creation": unsigned(to=None, data=b"\x60\x00"),
}


class HostileNode:
    """A node without a socket; what it answers goes through JSON as an answer does."""

    def __init__(self) -> None:
        self.network: Network = local_network()
        self.answers: dict[str, dict[str, Any]] = dict(ANSWERS)
        # Of contracts, by the first digits of the data; all others answer as `eth_call` does.
        self.contracts: dict[str, dict[str, Any]] = {}
        self.asked: set[str] = set()

    def post(self, url: str, calls: list[Call], deadline: float) -> list[Any]:
        self.asked |= {call.method for call in calls}
        ids = list(range(1, len(calls) + 1))
        body = [{"jsonrpc": "2.0", "id": number, **self.answer(call)} for number, call in zip(ids, calls, strict=True)]
        return read_answers(200, "", json.dumps(body if len(body) > 1 else body[0]).encode(), ids)

    def answer(self, call: Call) -> dict[str, Any]:
        if call.method == "eth_call":
            for selector, answer in self.contracts.items():
                if call.params[0]["data"].startswith(selector):
                    return answer
        return self.answers[call.method]

    def ask(self, method: str, policies: dict[str, Any], **params: Any) -> dict[str, Any]:
        """Ask through a relayer of these policies; nothing counts that an answer before has left."""
        ttl_cache.clear_all()
        cache.clear()
        urls = [{"url": "http://127.0.0.1:9/", "weight": 1}]
        relayer = Relayer(pk=1, network="hardhat", address=ADDRESS, policies=policies, custom_rpc_urls=urls)
        return dispatch.answer(relayer, method, {"network": "hardhat", **params})


@pytest.fixture
def node(settings: Any, monkeypatch: pytest.MonkeyPatch) -> HostileNode:
    settings.EXTENSIONS = ["quotes"]
    node = HostileNode()
    monkeypatch.setattr(attempts, "_post", node.post)
    monkeypatch.setattr(quote, "networks", lambda: {"hardhat": node.network})
    return node


QUANTITIES = st.one_of(
    st.sampled_from([0, 1, 7, 100, 21_000, 10**9, 2**64 - 1, 2**64, 2**128, MAX]), st.integers(0, MAX)
).map(hex)
# Too large, negative, not hexadecimal, of another type.
NO_QUANTITIES = st.sampled_from(
    [None, True, 0, -1, 7, 1.5, 1e308, 10**30, "", "0x", "0x" + "f" * 65, "-0x1", "0xzz", " 0x1", "0x1\n", "7", "é\0"]
)
SCALARS = QUANTITIES | NO_QUANTITIES | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
NAMES = st.sampled_from([*HEAD, *HISTORY, "gasLimit", "gas_limit", "priorityFeePerGas", "data", "error", ""])
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=10
)
TIMES = st.sampled_from([0, 1, 1_700_000_000, 253_402_300_799, 253_402_300_800, 2**63, MAX]).map(hex)
# What contracts return: some words, or not even bytes.
WORDS = st.lists(st.integers(0, 10**30) | st.integers(0, MAX), max_size=6).map(
    lambda words: "0x" + "".join(f"{word:064x}" for word in words)
)
ERRORS = st.fixed_dictionaries(
    {
        "code": st.sampled_from([3, -32000, -32601, -32603, 0]),
        "message": st.sampled_from(["execution reverted", "insufficient funds", "no such method", "é\0", ""]),
        "data": ANYTHING,
    }
)


def parts(like: dict[str, Any], **of_part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy of objects like this one, of which each part may be missing or be something else."""
    optional = {name: st.just(value) | of_part.get(name, SCALARS) | ANYTHING for name, value in like.items()}
    return st.fixed_dictionaries({}, optional=optional) | st.fixed_dictionaries(
        {name: st.just(value) | of_part.get(name, QUANTITIES) for name, value in like.items()}
    )


RATIOS = st.floats(-1, 3) | st.integers(-1, 3)
ROWS = st.lists(QUANTITIES, min_size=7, max_size=7)
# As long as a row, and none.
OBJECTS = st.dictionaries(st.text(max_size=3), QUANTITIES, min_size=7, max_size=7)
HISTORIES = parts(
    HISTORY,
    baseFeePerGas=st.lists(QUANTITIES, max_size=4),
    gasUsedRatio=st.lists(RATIOS, max_size=3),
    reward=st.none() | st.lists(ROWS | OBJECTS | st.lists(SCALARS, max_size=8), min_size=1, max_size=3),
)
RESULTS: dict[str, st.SearchStrategy[Any]] = {
    "eth_getBlockByNumber": parts(HEAD, timestamp=TIMES),
    "eth_feeHistory": HISTORIES,
    "linea_estimateGas": parts(ANSWERS["linea_estimateGas"]["result"]),
    "zks_estimateFee": parts(ANSWERS["zks_estimateFee"]["result"]),
    "eth_call": WORDS,
    **dict.fromkeys(["eth_estimateGas", "eth_baseFee", "eth_gasPrice", "eth_blobBaseFee"], QUANTITIES),
}


def answers_to(method: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of answers to a method: nearly right ones, any other results, and errors."""
    # Twice, so that most are nearly right.
    results = RESULTS[method] | RESULTS[method] | ANYTHING
    return results.map(lambda result: {"result": result}) | ERRORS.map(lambda error: {"error": error})


# To some methods; all others are answered well.
STRANGE_ANSWERS = st.sets(st.sampled_from(sorted(RESULTS)), min_size=1, max_size=3).flatmap(
    lambda methods: st.fixed_dictionaries({method: answers_to(method) for method in sorted(methods)})
)
POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "gas_price_cap": st.sampled_from([0, 100, 2**128 - 1]),
        "eip1559_pricing": st.booleans(),
        "gas_limit_estimation": st.booleans(),
    },
)
NETWORKS = st.builds(
    local_network,
    kind=st.sampled_from(list(NetworkKind)),
    base_fee_rule=st.sampled_from(list(BaseFeeRule)),
    reports_fullness=st.booleans(),
    unused_gas_charge_bps=st.sampled_from([0, 5_000, 10_000]),
    tx_gas_cap=st.sampled_from([None, 2**24]),
    max_head_age_seconds=st.sampled_from([None, 10**9]),
    block_seconds=st.sampled_from([0.25, 1, 12]),
)


def leaves(body: Any) -> Iterator[Any]:
    """Yield every value of a body that is not made of others."""
    if isinstance(body, dict):
        body = itertools.chain(body, body.values())
    elif not isinstance(body, list):
        yield body
        return
    for part in body:
        yield from leaves(part)


def codes(body: Any) -> Iterator[int]:
    """Yield the code of every error in a body, of tokens too."""
    if isinstance(body, dict):
        if "error" in body:
            yield body["error"]["code"]
        for part in body.values():
            yield from codes(part)
    elif isinstance(body, list):
        for part in body:
            yield from codes(part)


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


@hypothesis_settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=amount(100, 400)
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


@hypothesis_settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=amount(50, 100)
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
