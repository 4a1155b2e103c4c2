"""Sections 4.5, 5, 7 and 8: a JSON-RPC call through a relayer."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from django.contrib.auth.models import User

from tests.api import Api
from tests.chain.encoded import SENDER, SEPOLIA_CHAIN, signed, text
from tests.chain.fee_node import FeeNode, serve
from tests.contract import bodies
from tests.contract.rpc_calls import CALL, FEE, PARAMS, PATH, TRANSFER, estimate, node, relayer
from tests.relayers.factories import ADDRESS
from tests.rpc.factories import TOKEN, fee_token, fixed_source
from tokens.writes import issue

__all__ = ["node"]

NO_METHOD = "This method does not exist on relayers of type evm."


def test_a_fee_in_the_native_coin(api: Api, node: FeeNode) -> None:
    relayer(node)
    answer = api.post(PATH, CALL)
    assert (answer.status, answer.body) == (200, bodies.rpc_result(FEE))
    assert answer.headers["content-type"] == "application/json"
    assert node.asked == [["eth_chainId", "eth_estimateGas", "eth_feeHistory", "eth_getBlockByNumber"]]


@pytest.mark.parametrize("name", ["USDC", TOKEN, TOKEN.lower()])
def test_a_fee_in_a_token_with_a_fixed_rate(api: Api, node: FeeNode, name: str) -> None:
    relayer(node)
    fixed_source(fee_token(), "3000.5")
    answer = estimate(api, fee_token=name)
    # 0.00004389 * 3000.5 = 0.131691945, and the token has six decimals.
    fee = {"estimated_fee": "0.131692", "conversion_rate": "3000.5", "method": "feeEstimate"}
    assert (answer.status, answer.body) == (200, bodies.rpc_result(fee))


def test_a_token_s_margin_is_in_the_fee_and_not_in_the_rate(api: Api, node: FeeNode) -> None:
    relayer(node)
    fixed_source(fee_token(margin_bps=150), "3000.5")
    # 0.131691945 and 1.5% of it.
    fee = {"estimated_fee": "0.133668", "conversion_rate": "3000.5", "method": "feeEstimate"}
    assert estimate(api, fee_token="USDC").body == bodies.rpc_result(fee)


@pytest.mark.parametrize("network", ["hardhat", "localhost-anvil", "evm"])
def test_the_network_goes_by_its_name_and_by_its_type(api: Api, node: FeeNode, network: str) -> None:
    relayer(node)
    answer = estimate(api, network=network)
    assert (answer.status, answer.body) == (200, bodies.rpc_result(FEE))


@pytest.mark.parametrize(
    ("transaction", "sender"), [(TRANSFER, ADDRESS), (text(signed(0)), SENDER), (text(signed(4)), SENDER)]
)
def test_gas_is_estimated_for_whoever_signed_and_else_for_the_relayer(
    api: Api, node: FeeNode, transaction: str, sender: str
) -> None:
    relayer(node)
    assert "result" in estimate(api, transaction=transaction).body
    (asked,) = (params for method, params in node.params if method == "eth_estimateGas")
    assert asked[0]["from"] == sender


@pytest.mark.parametrize(
    "state",
    [
        {"paused": True},
        {"system_disabled": True, "disabled_reason_type": "NonceSyncFailed", "disabled_reason_details": "No node."},
    ],
    ids=["paused", "system_disabled"],
)
def test_a_relayer_that_does_not_work_answers_all_the_same(api: Api, node: FeeNode, state: dict[str, Any]) -> None:
    relayer(node, **state)
    answer = api.post(PATH, CALL)
    assert (answer.status, answer.body) == (200, bodies.rpc_result(FEE))


IDS = ["1", "", "a string", "\u9375\U0001f511", "x" * 10_000, 0, 1, -1, 2**53 + 1, 2**63, 2**70, -(2**70), None]


@pytest.mark.parametrize("sent", IDS, ids=lambda sent: repr(sent)[:20])
def test_an_id_is_answered_as_a_string_and_null_as_null(api: Api, sent: Any) -> None:
    relayer()
    answer = api.post(PATH, {"jsonrpc": "2.0", "id": sent, "method": "nothing"})
    answered = None if sent is None else str(sent)
    expected = bodies.rpc_error(-32601, "Method not found", NO_METHOD, identifier=answered)
    assert (answer.status, answer.body) == (200, expected)


@pytest.mark.parametrize("sent", [each for each in IDS if each is None or isinstance(each, int)])
def test_an_id_is_echoed_where_the_setting_says_so(api: Api, settings: Any, sent: int | None) -> None:
    settings.RPC_ID_AS_STRING = False
    relayer()
    answer = api.post(PATH, {"jsonrpc": "2.0", "id": sent, "method": "nothing"})
    expected = bodies.rpc_error(-32601, "Method not found", NO_METHOD, identifier=sent)
    assert (answer.status, answer.body) == (200, expected)


def test_a_call_without_an_id_is_answered_with_null(api: Api, node: FeeNode) -> None:
    relayer(node)
    answer = api.post(PATH, {name: value for name, value in CALL.items() if name != "id"})
    assert (answer.status, answer.body) == (200, bodies.rpc_result(FEE, identifier=None))


@pytest.mark.parametrize(
    "identifier",
    [
        "a b",
        "caf\u00e9",
        "\u9375\U0001f511",
        "a/b",
        "a//b",
        "/",
        "..",
        ".",
        "'\";--",
        "%",
        "%2F",
        "a/rpc",
        "rpc",
        "a\nb",
    ],
)
def test_any_id_of_a_relayer_works(api: Api, identifier: str) -> None:
    relayer(identifier=identifier)
    answer = api.post(f"/api/v1/relayers/{quote(identifier, safe='')}/rpc", CALL | {"method": "nothing"})
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32601, "Method not found", NO_METHOD))


@pytest.mark.parametrize("path", ["a/b/rpc", "a/rpc/rpc", "../rpc", "a%2Frpc/rpc", "a//rpc", "a/rpc/", "a/rpc%2F"])
def test_an_id_that_is_written_without_an_escape_works(api: Api, path: str) -> None:
    for identifier in ("a/b", "a/rpc", "..", "a/", "a"):
        relayer(identifier=identifier)
    answer = api.post(f"/api/v1/relayers/{path}", CALL | {"method": "nothing"})
    assert (answer.status, answer.body) == (200, bodies.rpc_error(-32601, "Method not found", NO_METHOD))


@pytest.mark.parametrize(
    ("path", "identifier"),
    [
        ("relayer-2", "relayer-2"),
        ("RELAYER-1", "RELAYER-1"),
        ("relayer-1%20", "relayer-1 "),
        ("a%20b+c", "a b+c"),
        ("caf%C3%A9", "caf\u00e9"),
        ("relayer-1%CC%81", "relayer-1\u0301"),
        ("a/b", "a/b"),
        ("a%2Fb", "a/b"),
        ("a%252Fb", "a%2Fb"),
        ("relayer-1/", "relayer-1/"),
        ("relayer-1/rpc", "relayer-1/rpc"),
        ("..", ".."),
        ("%2e%2e", ".."),
        ("%22%27%3C%3E", "\"'<>"),
        ("{relayer_id}", "{relayer_id}"),
        ("%00", "\0"),
        ("a%00b", "a\0b"),
        ("%0A", "\n"),
        ("%ff%fe", "%FF%FE"),
        ("x" * 300, "x" * 300),
        ("%F0%9F%94%91" * 300, "\U0001f511" * 300),
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_an_unknown_relayer_is_not_found_by_the_id_as_it_was_sent(api: Api, path: str, identifier: str) -> None:
    relayer()
    answer = api.post(f"/api/v1/relayers/{path}/rpc", CALL)
    assert (answer.status, answer.body) == (404, bodies.failure(f"Relayer with ID {identifier} not found"))
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("identifier", ["relayer-1", "relayer-2"])
def test_other_methods_are_not_offered(api: Api, method: str, identifier: str) -> None:
    relayer()
    answer = api(method, f"/api/v1/relayers/{identifier}/rpc", CALL)
    assert (answer.status, answer.body) == (405, bodies.failure("Method Not Allowed"))
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("sent", ["", "rms_unknown"])
@pytest.mark.parametrize("body", [json.dumps(CALL).encode(), b"{"])
@pytest.mark.parametrize("identifier", ["relayer-1", "relayer-2"])
def test_a_call_needs_a_token(api: Api, node: FeeNode, sent: str, body: bytes, identifier: str) -> None:
    relayer(node)
    answer = api.with_token(sent).post(f"/api/v1/relayers/{identifier}/rpc", raw=body)
    assert (answer.status, answer.body) == (401, bodies.failure("Unauthorized"))
    assert answer.headers["www-authenticate"] == "Bearer"
    assert node.asked == []


def test_calls_past_the_rate_are_too_many_requests(api: Api, settings: Any, user: User) -> None:
    # A window that no test outlives.
    settings.RATE_LIMIT_RPC = "3/d"
    relayer()
    # Of any relayer and with any outcome.
    answers = [
        api.post(PATH, CALL | {"method": "nothing"}),
        api.post("/api/v1/relayers/relayer-2/rpc", CALL),
        api.post(PATH, {}),
        api.post(PATH, CALL),
    ]
    assert [answer.status for answer in answers] == [200, 404, 400, 429]
    assert answers[3].body == bodies.failure("Too Many Requests")
    assert 1 <= int(answers[3].headers["retry-after"]) <= 24 * 60 * 60
    other = api.with_token(issue(name="other", user=user)[1])
    unknown = bodies.failure("Relayer with ID relayer-2 not found")
    assert other.post("/api/v1/relayers/relayer-2/rpc", CALL).body == unknown
    # Lists have no part in it.
    assert api.get("/api/v1/relayers").status == 200


def test_the_examples_of_the_document_are_what_the_server_answers(api: Api) -> None:
    document = yaml.safe_load(api.get("/api/schema").text)
    operation = document["paths"]["/api/v1/relayers/{relayer_id}/rpc"]["post"]
    (request,) = operation["requestBody"]["content"]["application/json"]["examples"].values()
    answers = operation["responses"]["200"]["content"]["application/json"]["examples"]
    with serve(FeeNode(chain_id=SEPOLIA_CHAIN)) as sepolia:
        relayer(sepolia, network="sepolia")
        assert api.post(PATH, request["value"]).body == answers["Result"]["value"]
        refused = request["value"] | {"params": request["value"]["params"] | {"fee_token": "NONE"}}
        assert api.post(PATH, refused).body == answers["Failure"]["value"]


def test_the_document_names_every_code_of_an_error(api: Api) -> None:
    document = yaml.safe_load(api.get("/api/schema").text)
    told = document["components"]["schemas"]["RpcError"]["properties"]["code"]["description"]
    codes = [-32601, -32602, -32603, *range(-32000, -32006, -1)]
    assert [line.split("`")[1] for line in told.splitlines() if line.startswith("-")] == [str(code) for code in codes]


def test_params_are_not_kept_from_one_call_to_the_next(api: Api, node: FeeNode) -> None:
    relayer(node)
    assert api.post(PATH, CALL).body == bodies.rpc_result(FEE)
    without = api.post(PATH, {name: value for name, value in CALL.items() if name != "params"})
    missing = "; ".join(f"{name}: this field is required" for name in PARAMS)
    assert without.body == bodies.rpc_error(-32602, "Invalid params", missing)
