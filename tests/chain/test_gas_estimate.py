"""Why a transaction cannot be executed: told in our words, but for the reason of a contract."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from eth_abi.abi import encode

from chain.fees import gas_estimate
from chain.fees.gas_estimate import reason, refusal
from chain.nodes.answers import ChainError
from rpc.errors import RpcError, as_rpc_errors
from tests.chain.answering_node import node_answering, unsigned
from tests.chain.fixtures import Deployed
from tests.chain.hardhat import Chain, encode_call
from tests.rpc.estimates import ask, failure, relayer_at

ERROR, PANIC = "08c379a0", "4e487b71"
UNDECODED = "undecodable reason"


def body(error: ChainError) -> dict[str, Any]:
    """Return what a caller is told of a refusal."""
    with pytest.raises(RpcError) as raised, as_rpc_errors():
        raise refusal(error)
    return raised.value.body()


def said(text: str) -> bytes:
    return bytes.fromhex(ERROR) + encode(["string"], [text])


def said_bytes(text: bytes) -> bytes:
    return bytes.fromhex(ERROR) + encode(["bytes"], [text])


def panicked(code: int) -> bytes:
    return bytes.fromhex(PANIC) + encode(["uint256"], [code])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (said("Token: balance too low"), '"Token: balance too low"'),
        (said(""), '""'),
        (said("zu wenig Öl 🛢"), '"zu wenig Öl 🛢"'),
        (panicked(0x01), "panic 0x01, assertion failed"),
        (panicked(0x11), "panic 0x11, arithmetic overflow"),
        (panicked(0x99), "panic 0x99"),
        (panicked(2**256 - 1), "panic 0x" + "f" * 64),
        (bytes.fromhex("c246547f") + bytes(64), "custom error 0xc246547f"),
        (b"", "no reason given"),
        (b"\1\2\3", "no reason given"),
    ],
)
def test_a_reason_is_decoded(data: bytes, words: str) -> None:
    assert reason(data) == words


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex(ERROR),
        bytes.fromhex(ERROR) + b"\xff" * 64,
        # A text that is longer than what comes, or than any memory.
        bytes.fromhex(ERROR) + encode(["uint256", "uint256"], [32, 1]),
        bytes.fromhex(ERROR) + encode(["uint256", "uint256"], [32, 2**256 - 1]),
        bytes.fromhex(ERROR) + encode(["uint256", "uint256"], [2**63, 5]),
        bytes.fromhex(PANIC),
        said_bytes(b"\xff\xfe"),
        said_bytes("\ud800".encode("utf-8", "surrogatepass")),
    ],
)
def test_a_malformed_reason_is_not_passed_on(data: bytes) -> None:
    assert reason(data) == UNDECODED


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\r\tc\0d\x1b[31me\x7f", "abcd[31me"),
        ("\u202eesrever\u202c \u200b\u2066x\u2069\ufeff", "esrever x"),
        ("one\u2028two", "onetwo"),
        ("private \ue000", "private "),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "…"),
        ("\n" * 10_000 + "end", "end"),
    ],
    ids=["control", "right to left", "lines", "private", "just fits", "one over", "hidden"],
)
def test_a_hostile_reason_is_one_short_line(text: str, shown: str) -> None:
    assert reason(said(text)) == f'"{shown}"'


def hardhat(data: Any, message: str = "VM Exception while processing transaction: reverted") -> ChainError:
    return ChainError(-32603, message, {"message": message, "data": data})


REASON = "0x" + said("Token: balance too low").hex()


@pytest.mark.parametrize(
    "error",
    [
        ChainError(3, "execution reverted: Token: balance too low", REASON),
        ChainError(3, "execution reverted", REASON.upper().replace("0X", "0x")),
        ChainError(-32000, "execution reverted", REASON),
        ChainError(-32015, "VM execution error.", REASON),
        hardhat(REASON),
    ],
)
def test_the_reason_is_found_where_nodes_put_it(error: ChainError) -> None:
    assert body(error) == {
        "code": -32003,
        "message": "Execution reverted",
        "description": 'The transaction would revert: "Token: balance too low".',
    }


NO_DATA: list[Any] = [None, "0x", "0xzz", "0x1", 5, [], {}, {"data": 5}, {"data": {}}]


@pytest.mark.parametrize(
    ("code", "message", "data"),
    [
        *((3, "", data) for data in NO_DATA),
        (-32000, "execution reverted", None),
        (-32603, "REVERT", None),
    ],
)
def test_a_revert_without_data_is_one_without_a_reason(code: int, message: str, data: Any) -> None:
    told = body(ChainError(code, message, data))
    assert (told["code"], told["description"]) == (-32003, "The transaction would revert: no reason given.")


FUNDS = "the sender's balance does not cover the transaction's value"
GAS = "it needs more gas than its limit"
CODE = "its code is invalid"


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        ("insufficient funds for gas * price + value: address 0xf39F have 0 want 1", FUNDS),
        ("Sender doesn't have enough funds to send tx. The max upfront cost is: 1", FUNDS),
        ("insufficient balance for transfer", FUNDS),
        ("gas required exceeds allowance (30000000)", GAS),
        ("out of gas", GAS),
        ("Transaction ran out of gas", GAS),
        ("intrinsic gas too low: have 100, want 21000", GAS),
        ("exceeds block gas limit", "it needs more gas than a block's limit"),
        (
            "transaction gas limit (16777217) is greater than the cap (16777216)",
            "its gas limit is above that of the network",
        ),
        ("invalid opcode: INVALID", CODE),
        ("invalid jump destination", CODE),
        ("stack underflow (0 <=> 1)", CODE),
    ],
)
def test_a_common_refusal_has_its_own_message(message: str, meaning: str) -> None:
    assert body(ChainError(-32000, message)) == {
        "code": -32003,
        "message": "Execution reverted",
        "description": f"The transaction cannot be executed: {meaning}.",
    }


@pytest.mark.django_db
def test_an_unknown_refusal_is_logged_and_nothing_of_it_is_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    message = "tenant 4711 at http://inner:8545/key\nforged: line" + "x" * 10_000
    refusal = {"error": {"code": -32000, "message": message}}
    with node_answering(eth_estimateGas=refusal) as node, caplog.at_level(logging.WARNING):
        answer = ask(relayer_at(node.url))
    assert answer == failure(-32005, "Insufficient data", "The node refused to estimate the gas of the transaction.")
    (record,) = (record for record in caplog.records if record.name == gas_estimate.__name__)
    assert record.getMessage() == (
        "A node refused to estimate the gas of a transaction: -32000 "
        + "tenant 4711 at http://inner:8545/keyforged: line".ljust(200, "x").replace("keyforged:", "***")
        + "…"
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("signature", "args", "description"),
    [
        ("revertWithReason(string)", ["no\u202e\n more"], 'would revert: "no more"'),
        ("revertWithPanic()", [], "would revert: panic 0x01, assertion failed"),
        ("revertWithoutData()", [], "would revert: no reason given"),
        ("loop()", [], "cannot be executed: it needs more gas than its limit"),
    ],
)
def test_a_real_node_reports_why_a_contract_fails(
    chain: Chain, deployed: Deployed, signature: str, args: list[Any], description: str
) -> None:
    transaction = unsigned(to=deployed.misbehaving, data=encode_call(signature, *args), value=0)
    assert ask(relayer_at(chain.url), transaction=transaction) == failure(
        -32003, "Execution reverted", f"The transaction {description}."
    )
