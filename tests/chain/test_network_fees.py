"""What each kind of network is asked, in one round trip, what the fee comes to, and what if an answer is missing.

The nodes are stand-ins: they speak each network's wire format, as its documentation has it, with fixed numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import pytest
import rlp
import zstandard
from eth_abi.abi import encode
from pytest_django import Settings

from chain.networks import NetworkKind
from relayers.models import Relayer
from tests.chain import faults
from tests.chain.answering_node import ANSWERS, HISTORY, RECEIVER, ChangeNetwork, change_network
from tests.chain.hardhat import GAS_PRICE_ORACLE, NODE_INTERFACE, SCROLL_ORACLE, encode_call
from tests.chain.independent import PLACEHOLDER_SIGNATURE
from tests.relayers.factories import ADDRESS
from tests.rpc import estimates
from tests.rpc.estimates import failure, relayer_at

__all__ = ["change_network"]

pytestmark = pytest.mark.django_db

Answer = dict[str, Any]
# Calls, each a method with its params, and what is answered.
Exchanges = list[tuple[list[Any], Answer]]


def word(*numbers: int) -> Answer:
    """Return what a contract answers that returns these numbers."""
    return {"result": "0x" + encode(["uint256"] * len(numbers), numbers).hex()}


def contract_call(to: str, signature: str, *args: Any) -> list[Any]:
    """Return a call as nodes get it: its method and its params."""
    return ["eth_call", [{"to": to, "data": "0x" + encode_call(signature, *args).hex()}, "latest"]]


def filled(*signature: bytes | int) -> bytes:
    """Encode the transfer of `unsigned`, which names no price, with the placeholders of prices."""
    to, placeholders = bytes.fromhex(RECEIVER[2:]), [0x0F93A6, 0x51B86E17]
    return b"\x02" + bytes(rlp.encode([31337, 3, *placeholders, 50_000, to, 1, b"", [], *signature]))


CALL = {"from": ADDRESS, "value": "0x1", "data": "0x", "to": RECEIVER}
ESTIMATE_GAS = ["eth_estimateGas", [CALL]]
FEE_HISTORY = ["eth_feeHistory", ["0xa", "latest", [30, 40, 50, 60, 70, 75, 90]]]
GET_L1_FEE = contract_call(GAS_PRICE_ORACLE, "getL1Fee(bytes)", filled())
AT_NO_GAS = contract_call(GAS_PRICE_ORACLE, "getOperatorFee(uint256)", 0)
AT_A_MILLION = contract_call(GAS_PRICE_ORACLE, "getOperatorFee(uint256)", 10**6)
TOKEN_RATIO = contract_call(GAS_PRICE_ORACLE, "tokenRatio()")
L1_COMPONENT = contract_call(NODE_INTERFACE, "gasEstimateL1Component(address,bool,bytes)", RECEIVER, False, b"")
# Without the magic number that a file has.
COMPRESSED = zstandard.compress(filled(1, *PLACEHOLDER_SIGNATURE), 3)[4:]
SCROLL_L1_FEE = contract_call(SCROLL_ORACLE, "getL1Fee(bytes)", COMPRESSED)
LINEA_ESTIMATE = ["linea_estimateGas", [CALL]]
ZKSYNC_ESTIMATE = ["zks_estimateFee", [CALL]]

# The examples of docs.linea.build and of zkSync's API reference; its nodes know neither tips nor how full blocks are.
OF_LINEA: Answer = {"result": {"gasLimit": "0xcf08", "baseFeePerGas": "0x7", "priorityFeePerGas": "0x43a82a4"}}
OF_ZKSYNC: Answer = {
    "result": {
        "gas_limit": "0x1ea9a9",
        "max_fee_per_gas": "0x17d7840",
        "max_priority_fee_per_gas": "0x0",
        "gas_per_pubdata_limit": "0x5340",
    }
}
ZKSYNC_HISTORY = HISTORY | {"gasUsedRatio": [0.0], "reward": [["0x0"] * 7], "l2_pubdata_price": ["0x0", "0x0"]}

NOTHING = {"expected": "0", "maximum": "0"}
# The next base fee is 100, and the 40th percentile of tips is 5.
OF_HISTORY = {"base_fee": "100", "base_fee_source": "eth_feeHistory"}
MARKET = {**OF_HISTORY, "priority_fee": "5", "expected": "105", "maximum": "125"}
BASE_FEE_ALONE = {**OF_HISTORY, "priority_fee": "0", "expected": "100", "maximum": "120"}
TRANSFER = {"estimate": "21000", "buffer": "0", "expected": "21000", "maximum": "21000"}
OF_TRANSFER = {"expected": "2205000", "maximum": "2625000"}


@dataclass(frozen=True)
class Case:
    """What a network of a kind is asked beside its chain id and its head block, with the answers, and the quote."""

    exchanges: Exchanges
    native: dict[str, str]
    gas: dict[str, str] = field(default_factory=lambda: TRANSFER)
    gas_price: dict[str, str] = field(default_factory=lambda: MARKET)
    gas_fee: dict[str, str] = field(default_factory=lambda: OF_TRANSFER)
    l1_fee: dict[str, str] = field(default_factory=lambda: NOTHING)
    operator_fee: dict[str, str] = field(default_factory=lambda: NOTHING)


ETHEREUM: Exchanges = [(ESTIMATE_GAS, {"result": "0x5208"}), (FEE_HISTORY, {"result": HISTORY})]
L1_FEE = {"expected": "1000001", "maximum": "1100002"}
CASES: dict[NetworkKind, Case] = {
    NetworkKind.NONE: Case(ETHEREUM, OF_TRANSFER),
    # 7 wei, and 2.5 wei for a unit of gas.
    NetworkKind.OP_STACK: Case(
        [*ETHEREUM, (GET_L1_FEE, word(1_000_001)), (AT_NO_GAS, word(7)), (AT_A_MILLION, word(2_500_007))],
        l1_fee=L1_FEE,
        operator_fee={"expected": "52507", "maximum": "52507"},
        native={"expected": "3257508", "maximum": "3777509"},
    ),
    NetworkKind.MANTLE: Case(
        [
            *ETHEREUM,
            (GET_L1_FEE, word(1_000_001)),
            (AT_NO_GAS, word(7)),
            (AT_A_MILLION, word(2_500_007)),
            (TOKEN_RATIO, word(3_789)),
        ],
        # In ETH times the ratio; the operator fee is in MNT already.
        l1_fee={"expected": "3789003789", "maximum": "4167904168"},
        operator_fee={"expected": "52507", "maximum": "52507"},
        native={"expected": "3791261296", "maximum": "4170581675"},
    ),
    # Even a transfer has a buffer where gas pays for L1 too, and there are no tips.
    NetworkKind.ARBITRUM: Case(
        [*ETHEREUM, (L1_COMPONENT, word(1_234, 10**8, 30 * 10**9))],
        gas={"estimate": "21000", "buffer": "2100", "expected": "21000", "maximum": "23100"},
        gas_price=BASE_FEE_ALONE,
        gas_fee={"expected": "2100000", "maximum": "2772000"},
        native={"expected": "2100000", "maximum": "2772000"},
    ),
    NetworkKind.LINEA: Case(
        [(LINEA_ESTIMATE, OF_LINEA)],
        gas={"estimate": "53000", "buffer": "5300", "expected": "53000", "maximum": "58300"},
        gas_price={
            "base_fee": "7",
            "base_fee_source": "linea_estimateGas",
            "priority_fee": "70943396",
            "expected": "70943403",
            # 7 and a fifth are 8.4.
            "maximum": "70943405",
        },
        gas_fee={"expected": "3760000359000", "maximum": "4136000476520"},
        native={"expected": "3760000359000", "maximum": "4136000476520"},
    ),
    NetworkKind.SCROLL: Case(
        [*ETHEREUM, (SCROLL_L1_FEE, word(1_000_001))],
        l1_fee=L1_FEE,
        native={"expected": "3205001", "maximum": "3725002"},
    ),
    NetworkKind.ZKSYNC: Case(
        [(ZKSYNC_ESTIMATE, OF_ZKSYNC), (FEE_HISTORY, {"result": ZKSYNC_HISTORY})],
        gas={"estimate": "2009513", "buffer": "200952", "expected": "2009513", "maximum": "2210465"},
        gas_price=BASE_FEE_ALONE,
        # Of 2210464.3 gas.
        gas_fee={"expected": "200951300", "maximum": "265255716"},
        native={"expected": "200951300", "maximum": "265255716"},
    ),
}


def stand_in(kind: NetworkKind, changed: dict[str, Answer] | None = None) -> AbstractContextManager[faults.NodeServer]:
    """Return a node of a kind, with other answers to some calls, by their text."""
    answers = {str(call): answer for call, answer in CASES[kind].exchanges} | (changed or {})

    def answer(call: dict[str, Any]) -> Answer:
        known = answers.get(str([call["method"], call["params"]])) or ANSWERS.get(call["method"])
        return known or faults.error(-32601, f"the method {call['method']} does not exist")

    return faults.node(faults.each(answer))


def quote(relayer: Relayer) -> dict[str, Any]:
    return estimates.quote(relayer, fee_tokens=["ETH"])


@pytest.fixture
def network_of(change_network: ChangeNetwork, settings: Settings) -> Callable[[NetworkKind], None]:
    def change(kind: NetworkKind) -> None:
        settings.EXTENSIONS = ["quotes"]
        change_network(kind=kind.value, tip_floor=0)

    return change


@pytest.mark.parametrize("kind", NetworkKind)
def test_a_transfer_costs_what_its_kind_charges_and_is_asked_in_one_round_trip(
    kind: NetworkKind, network_of: Callable[[NetworkKind], None]
) -> None:
    network_of(kind)
    case = CASES[kind]
    with stand_in(kind) as node:
        found = quote(relayer_at(node.url))["result"]
    (calls,) = node.requests
    assert [[call["method"], call["params"]] for call in calls] == [
        ["eth_chainId", []],
        *(call for call, _ in case.exchanges),
        ["eth_getBlockByNumber", ["latest", False]],
    ]
    native = {"symbol": "ETH", "decimals": 18, **case.native}
    (token,) = found.pop("tokens")
    assert [token[name].replace(".", "").lstrip("0") for name in ("expected", "maximum")] == [
        case.native[name].rstrip("0") for name in ("expected", "maximum")
    ]
    del found["valid_until"]
    assert found == {
        "method": "feeQuote",
        "network": "hardhat",
        "block_number": "7",
        "block_time": "2023-11-14T22:13:20.000000Z",
        "gas": case.gas,
        "gas_price": case.gas_price,
        "gas_fee": case.gas_fee,
        "l1_fee": case.l1_fee,
        "operator_fee": case.operator_fee,
        "blob_fee": NOTHING,
        "native": native,
    }


NO_ORACLE = {"result": "0x"}
UNKNOWN_METHOD = faults.error(-32601, "the method does not exist")
REVERTED = faults.error(3, "execution reverted", data="0x")
NO_STATE = faults.error(-32000, "no state")
NO_L1_FEE = "The network did not report its L1 data fee."
NO_OPERATOR_FEE = "The network did not report its operator fee."
NO_RATIO = "The network did not report its ratio of MNT to ETH."
NOT_ESTIMATED = "The node refused to estimate the gas of the transaction."
NO_GAS = "The node did not report the gas of the transaction."
NO_PRICE = "The node did not report the price at which the transaction would be included."


@pytest.mark.parametrize(
    ("kind", "call", "answer", "description"),
    [
        (NetworkKind.OP_STACK, GET_L1_FEE, NO_ORACLE, NO_L1_FEE),
        (NetworkKind.OP_STACK, AT_A_MILLION, NO_STATE, NO_OPERATOR_FEE),
        (NetworkKind.MANTLE, TOKEN_RATIO, NO_ORACLE, NO_RATIO),
        (NetworkKind.SCROLL, SCROLL_L1_FEE, NO_ORACLE, NO_L1_FEE),
        (NetworkKind.LINEA, LINEA_ESTIMATE, UNKNOWN_METHOD, NOT_ESTIMATED),
        (NetworkKind.LINEA, LINEA_ESTIMATE, {"result": "0xcf08"}, NO_GAS),
        (NetworkKind.LINEA, LINEA_ESTIMATE, {"result": OF_LINEA["result"] | {"baseFeePerGas": 7}}, NO_PRICE),
        (NetworkKind.LINEA, LINEA_ESTIMATE, {"result": {"gasLimit": "0xcf08", "baseFeePerGas": "0x7"}}, NO_PRICE),
        (NetworkKind.ZKSYNC, ZKSYNC_ESTIMATE, UNKNOWN_METHOD, NOT_ESTIMATED),
        (NetworkKind.ZKSYNC, ZKSYNC_ESTIMATE, {"result": OF_ZKSYNC["result"] | {"gas_limit": "0x0"}}, NO_GAS),
    ],
)
def test_missing_charges_of_a_kind_are_insufficient_data(
    kind: NetworkKind, call: list[Any], answer: Answer, description: str, network_of: Callable[[NetworkKind], None]
) -> None:
    network_of(kind)
    with stand_in(kind, {str(call): answer}) as node:
        assert quote(relayer_at(node.url)) == failure(-32005, "Insufficient data", description)


def test_every_method_that_estimates_reports_the_reason_of_a_revert(
    network_of: Callable[[NetworkKind], None],
) -> None:
    network_of(NetworkKind.LINEA)
    data = "0x08c379a0" + encode(["string"], ["not today"]).hex()
    reverted = faults.error(3, "execution reverted", data=data)
    with stand_in(NetworkKind.LINEA, {str(LINEA_ESTIMATE): reverted}) as node:
        assert quote(relayer_at(node.url)) == failure(
            -32003, "Execution reverted", 'The transaction would revert: "not today".'
        )


def test_arbitrum_is_quoted_without_its_l1_component(network_of: Callable[[NetworkKind], None]) -> None:
    network_of(NetworkKind.ARBITRUM)
    # What would be a fault of the node in answer to another call.
    limited = faults.error(-32005, "rate limit exceeded")
    with stand_in(NetworkKind.ARBITRUM, {str(L1_COMPONENT): limited}) as node:
        native = quote(relayer_at(node.url))["result"]["native"]
    assert native == {"symbol": "ETH", "decimals": 18, **CASES[NetworkKind.ARBITRUM].native}


def test_the_market_of_linea_holds_for_a_transactions_own_gas_limit_too(
    network_of: Callable[[NetworkKind], None],
) -> None:
    network_of(NetworkKind.LINEA)
    with stand_in(NetworkKind.LINEA) as node:
        found = quote(relayer_at(node.url, policies={"gas_limit_estimation": False}))["result"]
    assert found["gas"] == {"estimate": "50000", "buffer": "0", "expected": "50000", "maximum": "50000"}
    assert found["gas_price"] == CASES[NetworkKind.LINEA].gas_price
    assert [len(calls) for calls in node.requests] == [3]


@pytest.mark.parametrize(
    ("kind", "margin_bps", "maximum"), [(NetworkKind.OP_STACK, 0, "1000001"), (NetworkKind.SCROLL, 5, "1000502")]
)
def test_the_margin_of_the_l1_fee_is_the_networks_and_in_the_maximum_alone(
    kind: NetworkKind, margin_bps: int, maximum: str, change_network: ChangeNetwork, settings: Settings
) -> None:
    settings.EXTENSIONS = ["quotes"]
    change_network(kind=kind.value, l1_fee_margin_bps=margin_bps)
    with stand_in(kind) as node:
        found = quote(relayer_at(node.url))["result"]
    assert found["l1_fee"] == {"expected": "1000001", "maximum": maximum}
