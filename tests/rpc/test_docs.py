"""The worked example of docs/fee-estimation.md, computed again: by the service, and by hand."""

from __future__ import annotations

import json
import re
import statistics
from fractions import Fraction
from typing import Any

import pytest
from eth_abi.abi import encode

from chain.fees import fee_history, native_fee
from chain.fees.gas_estimate import GasEstimate
from chain.fees.native_fee import FeeOptions, NativeFee
from chain.fees.network_fees import KINDS
from chain.networks import networks
from chain.nodes.head import Head
from chain.transactions import decode
from rpc import errors
from rpc.fees.prices import Quote
from rpc.fees.quote import TokenFee
from rpc.fees.sources.base import SourcePrice
from rpc.fees.sources.chainlink import ROUND, Feed
from rpc.fees.tokens import Token
from tests.chain.answering_node import unsigned
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
def steps() -> dict[str, tuple[str, str]]:
    """What is expected and the maximum, by step."""
    table = TEXT[TEXT.index("| step | expected | maximum |") :]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", table, re.MULTILINE)[1:]
    return {name: (expected, maximum) for name, expected, maximum in rows if name != "---"}


def feed(answer: dict[str, int]) -> Fraction:
    words = encode(ROUND, [1, answer["answer"], NOW, NOW, 1]), encode(["uint8"], [answer["decimals"]])
    return Feed("", 60, "the feed").read([f"0x{word.hex()}" for word in words], NOW).price


def by_the_service(answers: dict[str, Any]) -> tuple[NativeFee, TokenFee]:
    rate = feed(answers["native/USD"]) / feed(answers["token/USD"])
    words = [
        f"0x{encode(['uint256'], [answers[name]]).hex()}"
        for name in ("getL1Fee", "getOperatorFee(0)", "getOperatorFee(1000000)")
    ]
    transaction, network = decode(unsigned(chain_id=8453)), networks()[answers["network"]]
    readings = KINDS[network.kind].charge_readings(transaction)
    found = {
        "head": Head(1, NOW, 0, 30_000_000),
        "gas": GasEstimate(int(answers["eth_estimateGas"], 16)),
        "history": fee_history.read_history(answers["eth_feeHistory"]),
        "l1_fee": readings["l1_fee"].read(words[:1]),
        "operator_fee": readings["operator_fee"].read(words[1:]),
    }
    fee = native_fee.compute(network, FeeOptions(), transaction, "0x", found)
    token = Token(pk=1, network="base", symbol="USDC", address="", margin_bps=MARGIN_BPS)
    price = Quote(rate, (SourcePrice("Chainlink", rate, NOW, NOW),), answers["token decimals"])
    return fee, TokenFee.compute(fee, token, price)


def test_the_service_computes_the_example_as_it_is_written(
    answers: dict[str, Any], steps: dict[str, tuple[str, str]]
) -> None:
    fee, token = by_the_service(answers)
    ratios = [Fraction(str(ratio)) for ratio in answers["eth_feeHistory"]["gasUsedRatio"]]
    assert {Fraction(text) for text in steps.pop("fullness of the blocks")} == {sum(ratios) / len(ratios)}
    column = fee_history.REQUESTED_PERCENTILES.index(int(steps.pop("percentile")[0]))
    tips = [int(rewards[column], 16) for rewards in answers["eth_feeHistory"]["reward"]]
    assert statistics.median_high(tips) == fee.price.priority_fee
    assert steps == {
        "gas": (str(fee.gas.paid.expected), str(fee.gas.paid.maximum)),
        "priority fee": (str(fee.price.priority_fee),) * 2,
        "next base fee": (str(fee.price.base_fee),) * 2,
        "price": (str(fee.price.expected), str(fee.price.maximum)),
        "L1 data fee": (str(fee.charges.l1_fee.expected), str(fee.charges.l1_fee.maximum)),
        "operator fee": (str(fee.charges.operator_fee.expected), str(fee.charges.operator_fee.maximum)),
        "native": (str(fee.total.expected), str(fee.total.maximum)),
        "rate": (str(token.price.rate),) * 2,
        "fee in the token": (token.expected_fee, token.maximum_fee),
    }
    assert f"`estimated_fee` is `{token.maximum_fee}`, and `conversion_rate` is `{token.conversion_rate}`." in TEXT


def test_the_example_is_right_by_hand(answers: dict[str, Any], steps: dict[str, tuple[str, str]]) -> None:
    assert int(answers["eth_estimateGas"], 16) == 61_234
    # (0.61 + 0.74 + 0.49 + 0.52) / 4 = 0.59: above 0.5, so the 50th percentile, the third column.
    column = sorted(int(rewards[2], 16) for rewards in answers["eth_feeHistory"]["reward"])
    tip = column[2]
    base_fee = int(answers["eth_feeHistory"]["baseFeePerGas"][-1], 16)
    # All over 10000 x 10000: the buffer of 10% and the margin of 20%, and 10% for L1.
    gas_cost = 61_234 * 11_000 * (base_fee * 12_000 + tip * 10_000)
    # 67357.4 gas is 67358 to the operator.
    operator_fee = 7_000 + 67_358 * 2_500_000 // 1_000_000
    native = gas_cost + 1_234_567_890_123 * 11_000 * 10_000 + operator_fee * 10**8
    # native / 10^8 wei, times 301245000000 / 99985000 tokens for 10^18 wei, with 6 decimals and 0.5% on top.
    above = native * 301_245_000_000 * 10**6 * 10_050
    below = 10**8 * 99_985_000 * 10**18 * 10_000
    units = -(-above // below)
    assert steps["fee in the token"][1] == f"0.{units:06}"
    assert Fraction(steps["native"][1]) == Fraction(native, 10**8)


def test_every_error_is_in_the_docs_with_its_code_and_message() -> None:
    text = (PROJECT / "docs/rpc.md").read_text()
    known = errors.RpcError.__subclasses__()
    rows = {tuple(row) for row in re.findall(r"^\| `(-32\d{3})` \| (.+?) \|", text, re.MULTILINE)}
    assert rows == {(str(error.code), error.message) for error in known}
