"""Sections 4.5 and 7: a call that fails is answered with an error object, and never with a result."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from eth_abi.abi import encode

from relayers.models import Relayer
from rpc.models import FeeToken
from tests.api import Api
from tests.chain.encoded import RECEIVER, SEPOLIA_CHAIN, signed, text, transfer
from tests.chain.fee_node import FeeNode
from tests.conftest import Log
from tests.contract import bodies
from tests.contract.rpc_calls import CALL, PARAMS, PATH, estimate, node, relayer
from tests.rpc.factories import FEED, TOKEN, fee_token, fixed_source

__all__ = ["node"]

NO_METHOD = "This method does not exist on relayers of type evm."
NOT_SUPPORTED = (
    "Fees cannot be quoted in this token on hardhat: it is not registered or has no price source. "
    "Use one of: ETH, DAI."
)
ANOTHER_NETWORK = "network: must be hardhat or evm"
NOT_ENCODED = "transaction: it is not an encoded transaction"
REASON = "0x08c379a0" + encode(["string"], ["too much \u2615"]).hex()


@pytest.mark.parametrize(
    "method",
    [
        "",
        "nothing",
        "FEEESTIMATE",
        "feeestimate",
        " feeEstimate",
        "eth_call",
        "run",
        "__class__",
        "\u9375",
        "x" * 100_000,
    ],
    ids=lambda method: ascii(method[:20]),
)
def test_an_unknown_method_is_not_found(api: Api, method: str) -> None:
    relayer()
    answer = api.post(PATH, CALL | {"method": method})
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32601, "Method not found", NO_METHOD))
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("params", "description"),
    [
        ({}, "; ".join(f"{name}: this field is required" for name in PARAMS)),
        *(
            ({other: value for other, value in PARAMS.items() if other != name}, f"{name}: this field is required")
            for name in PARAMS
        ),
        *((PARAMS | {name: None}, f"{name}: null is not allowed here") for name in PARAMS),
        *((PARAMS | {name: ""}, f"{name}: an empty string is not allowed here") for name in PARAMS),
        *(
            (PARAMS | {name: value}, f"{name}: a string is required")
            for name in PARAMS
            for value in (1, True, 1.5, ["ETH"], {"a": "b"})
        ),
        *((PARAMS | {name: "a\0"}, f"{name}: Null characters are not allowed.") for name in PARAMS),
        (PARAMS | {"gas": "0x1"}, "gas: unknown field"),
        (PARAMS | {"Network": "hardhat"}, "Network: unknown field"),
        *(
            (PARAMS | {"network": name}, ANOTHER_NETWORK)
            for name in ("sepolia", "HARDHAT", "hardhat ", "EVM", "solana", "31337")
        ),
        (
            PARAMS | {"fee_token": RECEIVER.swapcase().replace("X", "x", 1)},
            "fee_token: invalid checksum: a character of this address is mistyped",
        ),
        (
            PARAMS | {"transaction": transfer(SEPOLIA_CHAIN)},
            "transaction: must be for chain 31337 (hardhat), not 11155111",
        ),
        (PARAMS | {"transaction": "garbage"}, "transaction: it must start with 0x"),
        (PARAMS | {"transaction": PARAMS["transaction"][2:]}, "transaction: it must start with 0x"),
        (PARAMS | {"transaction": "0x"}, "transaction: it must have an even number of hexadecimal digits"),
        (PARAMS | {"transaction": "0xgg"}, "transaction: it must have an even number of hexadecimal digits"),
        (
            PARAMS | {"transaction": PARAMS["transaction"][:-1]},
            "transaction: it must have an even number of hexadecimal digits",
        ),
        (PARAMS | {"transaction": PARAMS["transaction"][:-2]}, NOT_ENCODED),
        (PARAMS | {"transaction": PARAMS["transaction"] + "00"}, NOT_ENCODED),
        (PARAMS | {"transaction": "0xdeadbeef"}, NOT_ENCODED),
        (PARAMS | {"transaction": "0x05c0"}, "transaction: its type must be between 0 and 4"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_the_faults_of_bad_params_are_listed(
    api: Api, node: FeeNode, params: dict[str, Any], description: str
) -> None:
    relayer(node)
    answer = api.post(PATH, CALL | {"params": params})
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32602, "Invalid params", description))
    assert node.asked == []


@pytest.mark.parametrize("name", ["eth", "ETH ", "USDC", "OFF", "FAR", "BARE", TOKEN, TOKEN[:-1] + "G", "x" * 10_000])
def test_a_token_that_is_not_registered_is_not_supported(api: Api, node: FeeNode, name: str) -> None:
    relayer(node)
    fixed_source(fee_token(symbol="OFF", address=FEED, enabled=False))
    fixed_source(fee_token(symbol="FAR", network="sepolia"))
    fixed_source(fee_token(symbol="DAI", address=RECEIVER))
    fee_token(symbol="BARE")
    answer = estimate(api, fee_token=name)
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32001, "Token not supported", NOT_SUPPORTED))


def test_a_rate_that_is_too_old_is_no_price(api: Api, node: FeeNode) -> None:
    relayer(node)
    set_at = timezone.now() - timedelta(seconds=61)
    fixed_source(fee_token(), rate_set_at=set_at, max_age_seconds=60)
    answer = estimate(api, fee_token="USDC")
    stale = "USDC on hardhat: the source “Fixed rate” is stale: its rate is older than its age limit."
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32002, "Price unavailable", stale))


def test_nodes_that_do_not_answer_are_unreachable_and_not_named(api: Api, log: Log) -> None:
    relayer()
    answer = api.post(PATH, CALL)
    unreachable = "No node answered: connection failed."
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32000, "Nodes unreachable", unreachable))
    assert "failed: " in log.text
    assert "s3cret" not in log.text


def test_a_node_of_another_chain_is_not_asked(api: Api, node: FeeNode) -> None:
    relayer(node)
    node.chain_id = 1
    answer = api.post(PATH, CALL)
    unreachable = "No node answered: on chain 1 instead of 31337."
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32000, "Nodes unreachable", unreachable))


@pytest.mark.parametrize(
    ("error", "description"),
    [
        (
            {"code": 3, "message": "execution reverted: secret words", "data": REASON},
            'The transaction would revert: "too much \u2615".',
        ),
        ({"code": 3, "message": "execution reverted"}, "The transaction would revert: no reason given."),
        (
            {"code": -32000, "message": "insufficient funds for transfer at node s3cret"},
            "The transaction cannot be executed: the sender's balance does not cover the transaction's value.",
        ),
    ],
)
def test_a_transaction_that_the_chain_rejects_gets_the_reason(
    api: Api, node: FeeNode, error: dict[str, Any], description: str
) -> None:
    relayer(node)
    node.errors["eth_estimateGas"] = error
    answer = api.post(PATH, CALL)
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32003, "Execution reverted", description))


@pytest.mark.parametrize(
    ("policies", "transaction", "description"),
    [
        (
            {"whitelist_receivers": [TOKEN]},
            PARAMS["transaction"],
            "The relayer's policy whitelist_receivers does not allow this receiver.",
        ),
        (
            {"whitelist_receivers": []},
            PARAMS["transaction"],
            "The relayer's policy whitelist_receivers does not allow this receiver.",
        ),
        (
            {"whitelist_receivers": [RECEIVER]},
            text(signed(2, to="")),
            "The relayer's policy whitelist_receivers does not allow creating contracts.",
        ),
    ],
)
def test_what_a_policy_does_not_allow_is_refused(
    api: Api, node: FeeNode, policies: dict[str, Any], transaction: str, description: str
) -> None:
    relayer(node, policies=policies)
    answer = estimate(api, transaction=transaction)
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32004, "Policy refused", description))
    assert node.asked == []


def test_an_unsigned_transaction_of_a_relayer_without_an_address_is_not_estimated(api: Api, node: FeeNode) -> None:
    relayer(node, address="")
    answer = api.post(PATH, CALL)
    unknown = "The relayer's address is unknown, and the transaction is not signed."
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32005, "Insufficient data", unknown))


def test_a_network_that_the_service_does_not_know_has_no_fees(api: Api, node: FeeNode) -> None:
    relayer(node, network="private", chain_id=31337)
    answer = estimate(api, network="private")
    unknown = "Unknown network 'private'. Add it to NETWORKS_FILE."
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32005, "Insufficient data", unknown))


def test_an_unexpected_failure_says_nothing_of_its_cause_and_the_log_has_it(api: Api, log: Log, node: FeeNode) -> None:
    """Copy the RPC URLs of another relayer to this one: encrypted for that row, they cannot be opened."""
    relayer(node)
    other = relayer(identifier="other", rpc_urls=[{"url": "https://rpc.example.com/hunter2", "weight": 100}])
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE relayers_relayer SET custom_rpc_urls = "
            "(SELECT custom_rpc_urls FROM relayers_relayer WHERE identifier = 'other') WHERE identifier = 'relayer-1'"
        )
        cursor.execute("SELECT custom_rpc_urls FROM relayers_relayer WHERE identifier = 'relayer-1'")
        (ciphertext,) = cursor.fetchone()
    assert Relayer.objects.get(pk=other.pk).node_urls() == [("https://rpc.example.com/hunter2", 100)]
    answer = api.post(PATH, CALL)
    fixed = "The call failed because of an internal error. The service's log has the cause under the request ID."
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32603, "Internal error", fixed))
    (error,) = (line for line in log.lines(answer.headers["x-request-id"]) if line["logger"] == "rpc.dispatch")
    assert (error["level"], error["message"], error["relayer"]) == (
        "ERROR",
        "The method feeEstimate failed",
        "relayer-1",
    )
    assert "DecryptionError" in error["traceback"].splitlines()[-1]
    assert "hunter2" not in log.text
    assert str(ciphertext) not in log.text
    assert PARAMS["transaction"] not in log.text


def test_no_answer_has_both_a_result_and_an_error(api: Api, node: FeeNode) -> None:
    relayer(node)
    calls = [CALL, CALL | {"method": "nothing"}, CALL | {"params": {}}, CALL | {"params": PARAMS | {"fee_token": "A"}}]
    answers = [api.post(PATH, call).body for call in calls]
    assert [sorted(body) for body in answers] == [
        ["id", "jsonrpc", "result"],
        *[["error", "id", "jsonrpc"]] * 3,
    ]
    assert all(sorted(body["error"]) == ["code", "description", "message"] for body in answers[1:])


def test_decimals_that_a_node_does_not_tell_are_not_guessed(api: Api, node: FeeNode) -> None:
    relayer(node)
    fixed_source(fee_token())
    node.errors["eth_call"] = {"code": 3, "message": "execution reverted"}
    answer = estimate(api, fee_token="USDC")
    unknown = "The token's contract did not report its decimals."
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32005, "Insufficient data", unknown))
    assert FeeToken.objects.get().decimals is None
