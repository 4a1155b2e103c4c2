"""Whatever a node answers, a caller gets a fee or an error that is documented, and never an internal one."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest
from django.core.cache import cache

from relayer_service.storage import ttl_cache
from relayers.chain import gas_price
from relayers.chain.errors import InsufficientData
from relayers.chain.gas_price import FeeHistory
from tests.relayers import faults
from tests.rpc.estimates import (
    ANSWERS,
    HISTORY,
    ChangeNetwork,
    ask,
    change_network,
    local_network,
    relayer_at,
    unsigned_with_blobs,
)
from tests.rpc.factories import (
    FEED,
    NATIVE_FEED,
    TOKEN,
    chainlink_native_source,
    chainlink_usd_source,
    fee_token,
    pair_source,
)

__all__ = ["change_network"]

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
DOCUMENTED = {"result", -32000, -32002, -32003, -32005}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "l1_fee", "token", "policies"),
    [
        ("eth_estimateGas", "none", "ETH", {}),
        ("eth_feeHistory", "none", "ETH", {}),
        ("eth_gasPrice", "none", "ETH", {"eip1559_pricing": False}),
        ("eth_blobBaseFee", "none", "ETH", {}),
        ("eth_chainId", "none", "ETH", {}),
        ("eth_call", "none", "PAIR", {}),
        ("eth_call", "none", "USD", {}),
        ("eth_call", "none", "NATIVE", {}),
        ("eth_call", "op-stack", "ETH", {}),
        ("eth_call", "arbitrum", "ETH", {}),
    ],
)
def test_a_strange_answer_gives_a_documented_code(
    change_network: ChangeNetwork, method: str, l1_fee: str, token: str, policies: dict[str, Any]
) -> None:
    change_network(l1_fee=l1_fee)
    pair_source(fee_token(symbol="PAIR", address=TOKEN))
    chainlink_usd_source(fee_token(symbol="USD", address=FEED))
    chainlink_native_source(fee_token(symbol="NATIVE", address=NATIVE_FEED))
    strange: dict[str, Any] = {}

    def answer_to(call: dict[str, Any]) -> dict[str, Any]:
        return strange if call["method"] == method else ANSWERS[call["method"]]

    seen = {}
    with faults.node(faults.each(answer_to)) as node:
        relayer = relayer_at(node.url, policies=policies)
        for answer in RESULTS + ERRORS:
            strange.clear()
            strange.update(answer)
            # Nothing that an answer before has left: neither a price nor a node that is paused.
            ttl_cache.clear_all()
            cache.clear()
            told = ask(relayer, token, unsigned_with_blobs(1))
            seen[json.dumps(answer)[:100]] = told["error"]["code"] if "error" in told else "result"
    assert {answer: code for answer, code in seen.items() if code not in DOCUMENTED} == {}
    assert len(seen) > len(RESULTS)


@pytest.mark.parametrize("name", ["baseFeePerGas", "gasUsedRatio", "reward"])
def test_a_strange_part_of_a_fee_history_is_refused_or_read(name: str) -> None:
    forms = ((value, [value], [value, value], [[value]], [[value] * 4]) for value in STRANGE)
    for strange in chain.from_iterable(forms):
        try:
            found = gas_price.history_reading(local_network()).read([HISTORY | {name: strange}])
        except InsufficientData:
            continue
        assert isinstance(found, FeeHistory)
        assert min(found.base_fee, found.priority_fee) >= 0
