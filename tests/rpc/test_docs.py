"""The worked example of docs/fee-estimation.md, computed again: by the service, and by hand."""

from __future__ import annotations

import json
import re
import statistics
from fractions import Fraction
from typing import Any

import pytest
from eth_abi.abi import encode

from relayer_service.amounts import with_bps
from relayers.chain import gas_price, l1
from relayers.chain.networks import networks
from relayers.chain.transactions import Transaction
from rpc import errors
from rpc.fees.estimate import Estimate, compute
from rpc.fees.prices import Quote
from rpc.fees.sources.base import SourcePrice
from rpc.fees.sources.chainlink import ROUND, read_round
from rpc.fees.tokens import Token
from tests.servers import PROJECT

TEXT = (PROJECT / "docs/fee-estimation.md").read_text()
MARGIN_BPS = 50
NOW = 1_800_000_000


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    block = re.search(r"```json\n(.+?)```", TEXT, re.DOTALL)
    assert block is not None
    return dict(json.loads(block[1]))


@pytest.fixture
def steps() -> dict[str, str]:
    table = TEXT[TEXT.index("| step | value |") :]
    return dict(re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.MULTILINE)[1:])


def feed(answer: dict[str, int]) -> Fraction:
    words = encode(ROUND, [1, answer["answer"], NOW, NOW, 1]), encode(["uint8"], [answer["decimals"]])
    return read_round([f"0x{word.hex()}" for word in words], 60, NOW, "the feed").price


def by_the_service(answers: dict[str, Any]) -> Estimate:
    rate = feed(answers["native/USD"]) / feed(answers["token/USD"])
    words = [
        f"0x{encode(['uint256'], [answers[name]]).hex()}"
        for name in ("getL1Fee", "getOperatorFee(0)", "getOperatorFee(1000000)")
    ]
    transaction = Transaction(2, 8453, None, None, 0, b"", 0, (), (), (), b"")
    network = networks()[answers["network"]]
    readings = l1.readings(network, transaction)
    found = {
        "gas": int(answers["eth_estimateGas"], 16),
        "history": gas_price.read_history(answers["eth_feeHistory"]),
        "l1_fee": readings["l1_fee"].read(words[:1]),
        "operator_fee": readings["operator_fee"].read(words[1:]),
        "price": Quote(rate, (SourcePrice("Chainlink", rate, NOW, NOW),), answers["token decimals"]),
    }
    token = Token(pk=1, network="base", symbol="USDC", address="", margin_bps=MARGIN_BPS)
    return compute({}, network, transaction, "0x", token, found)


def test_the_service_computes_the_example_as_it_is_written(answers: dict[str, Any], steps: dict[str, str]) -> None:
    found = by_the_service(answers)
    ratios = [Fraction(str(ratio)) for ratio in answers["eth_feeHistory"]["gasUsedRatio"]]
    assert Fraction(steps.pop("gas with buffer")) == with_bps(found.gas, found.gas_buffer_bps)
    assert Fraction(steps.pop("fullness of the blocks")) == sum(ratios) / len(ratios)
    column = gas_price.ASKED_PERCENTILES.index(int(steps.pop("percentile")))
    tips = [int(rewards[column], 16) for rewards in answers["eth_feeHistory"]["reward"]]
    assert statistics.median_high(tips) == found.gas_price.priority_fee
    assert steps == {
        "gas": str(found.gas),
        "tip": str(found.gas_price.priority_fee),
        "next base fee": str(found.gas_price.base_fee),
        "price": str(found.gas_price.price),
        "operator fee": str(found.operator_fee),
        "native": str(found.native),
        "rate": str(found.quote.rate),
        "estimated_fee": found.estimated_fee,
        "conversion_rate": found.conversion_rate,
    }


def test_the_example_is_right_by_hand(answers: dict[str, Any], steps: dict[str, str]) -> None:
    assert int(answers["eth_estimateGas"], 16) == 61_234
    # (0.61 + 0.74 + 0.49 + 0.52) / 4 = 0.59: above 0.5, so the 50th percentile, the second column.
    column = sorted(int(rewards[1], 16) for rewards in answers["eth_feeHistory"]["reward"])
    tip = column[2]
    base_fee = int(answers["eth_feeHistory"]["baseFeePerGas"][-1], 16)
    # All over 10000 x 10000: the buffer of 10% and the margin of 20%.
    gas_cost = 61_234 * 11_000 * (base_fee * 12_000 + tip * 10_000)
    # 67357.4 gas is 67358 to the operator.
    operator_fee = 7_000 + 67_358 * 2_500_000 // 1_000_000
    native = gas_cost + (1_234_567_890_123 + operator_fee) * 10**8
    # native / 10^8 wei, times 301245000000 / 99985000 tokens for 10^18 wei, with 6 decimals and 0.5% on top.
    above = native * 301_245_000_000 * 10**6 * 10_050
    below = 10**8 * 99_985_000 * 10**18 * 10_000
    units = -(-above // below)
    assert steps["estimated_fee"] == f"0.{units:06}"
    assert Fraction(steps["native"]) == Fraction(native, 10**8)


def test_every_error_is_in_the_docs_with_its_code_and_message() -> None:
    text = (PROJECT / "docs/rpc.md").read_text()
    known = errors.RpcError.__subclasses__()
    rows = {tuple(row) for row in re.findall(r"^\| `(-32\d{3})` \| (.+?) \|", text, re.MULTILINE)}
    assert rows == {(str(error.code), error.message) for error in known}
