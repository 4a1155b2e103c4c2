"""Sections 4.5 and 7: a call that fails is answered with an error object, and never with a result."""

from __future__ import annotations

from collections.abc import Iterator
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
REASON = "0x08c379a0" + encode(["string"], ["too much \u2615"]).hex()


def test_an_unknown_method_is_not_found(api: Api) -> None:
    relayer()
    names = ("", "nothing", "FEEESTIMATE", "feeestimate", " feeEstimate", "eth_call", "run", "__class__", "\u9375")
    for method in (*names, "x" * 100_000):
        answer = api.post(PATH, CALL | {"method": method})
        assert (answer.status, answer.body) == (200, bodies.rpc_error(-32601, "Method not found", NO_METHOD))
        assert answer.headers["content-type"] == "application/json"


def bad_params() -> Iterator[tuple[dict[str, Any], str]]:
    """Yield params with their fault."""
    yield {}, "; ".join(f"{name}: this field is required" for name in PARAMS)
    for name in PARAMS:
        yield {other: value for other, value in PARAMS.items() if other != name}, f"{name}: this field is required"
        yield PARAMS | {name: None}, f"{name}: null is not allowed here"
        yield PARAMS | {name: ""}, f"{name}: an empty string is not allowed here"
        yield PARAMS | {name: "a\0"}, f"{name}: Null characters are not allowed."
        for value in (1, True, 1.5, ["ETH"], {"a": "b"}):
            yield PARAMS | {name: value}, f"{name}: a string is required"
    yield PARAMS | {"gas": "0x1"}, "gas: unknown field"
    yield PARAMS | {"Network": "hardhat"}, "Network: unknown field"
    for network in ("sepolia", "HARDHAT", "hardhat ", "EVM", "solana", "31337"):
        yield PARAMS | {"network": network}, "network: must be hardhat or evm"
    mistyped = RECEIVER.swapcase().replace("X", "x", 1)
    yield PARAMS | {"fee_token": mistyped}, "fee_token: invalid checksum: a character of this address is mistyped"
    good = PARAMS["transaction"]
    odd, not_encoded = "it must have an even number of hexadecimal digits", "it is not an encoded transaction"
    for transaction, fault in {
        transfer(SEPOLIA_CHAIN): "must be for chain 31337 (hardhat), not 11155111",
        "garbage": "it must start with 0x",
        good[2:]: "it must start with 0x",
        **dict.fromkeys(("0x", "0xgg", good[:-1]), odd),
        **dict.fromkeys((good[:-2], good + "00", "0xdeadbeef"), not_encoded),
        "0x05c0": "its type must be between 0 and 4",
    }.items():
        yield PARAMS | {"transaction": transaction}, f"transaction: {fault}"


def test_the_faults_of_bad_params_are_listed(api: Api, node: FeeNode) -> None:
    relayer(node)
    for params, description in bad_params():
        answer = api.post(PATH, CALL | {"params": params})
        assert (answer.status, answer.body) == (200, bodies.rpc_error(-32602, "Invalid params", description))
    assert node.asked == []


def test_a_token_that_is_not_registered_is_not_supported(api: Api, node: FeeNode) -> None:
    relayer(node)
    fixed_source(fee_token(symbol="OFF", address=FEED, enabled=False))
    fixed_source(fee_token(symbol="FAR", network="sepolia"))
    fixed_source(fee_token(symbol="DAI", address=RECEIVER))
    fee_token(symbol="BARE")
    for name in ("eth", "ETH ", "USDC", "OFF", "FAR", "BARE", TOKEN, TOKEN[:-1] + "G", "x" * 10_000):
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


def test_what_a_policy_does_not_allow_is_refused(api: Api, node: FeeNode) -> None:
    row, creation = relayer(node), text(signed(2, to=""))
    for receivers, transaction, refused in (
        ([TOKEN], PARAMS["transaction"], "this receiver"),
        ([], PARAMS["transaction"], "this receiver"),
        ([RECEIVER], creation, "creating contracts"),
    ):
        row.policies = {"whitelist_receivers": receivers}
        row.save()
        answer = estimate(api, transaction=transaction)
        description = f"The relayer's policy whitelist_receivers does not allow {refused}."
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
