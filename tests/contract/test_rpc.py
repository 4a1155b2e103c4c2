"""Sections 4.5, 5, 7 and 8: a JSON-RPC call through a relayer."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User

from relayers.models import Relayer, RelayerHealth
from tests.api import Api
from tests.chain.encoded import SENDER, SEPOLIA_CHAIN, signed, text
from tests.chain.fee_node import FeeNode, serve
from tests.contract import bodies
from tests.contract.rpc_calls import CALL, FEE, PARAMS, PATH, TRANSFER, estimate, node, relayer
from tests.documents import read_document
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
    # The network goes by its name and by its type.
    for network in ("localhost-anvil", "evm"):
        assert estimate(api, network=network).body == bodies.rpc_result(FEE)
    # A call without an ID is answered with null.
    answer = api.post(PATH, {name: value for name, value in CALL.items() if name != "id"})
    assert (answer.status, answer.body) == (200, bodies.rpc_result(FEE, identifier=None))
    # A relayer that does not work answers all the same.
    Relayer.objects.update(paused=True)
    RelayerHealth.objects.update(system_disabled=True, disabled_reason_type="NonceSyncFailed")
    assert api.post(PATH, CALL).body == bodies.rpc_result(FEE)


def test_a_fee_in_a_token_with_a_fixed_rate(api: Api, node: FeeNode) -> None:
    relayer(node)
    token = fee_token()
    fixed_source(token, "3000.5")
    # 0.00004389 * 3000.5 = 0.131691945, and the token has six decimals.
    fee = {"estimated_fee": "0.131692", "conversion_rate": "3000.5", "method": "feeEstimate"}
    for name in ("USDC", TOKEN, TOKEN.lower()):
        answer = estimate(api, fee_token=name)
        assert (answer.status, answer.body) == (200, bodies.rpc_result(fee))
    # A margin of 1.5% is in the fee and not in the rate.
    type(token).objects.update(margin_bps=150)
    assert estimate(api, fee_token="USDC").body == bodies.rpc_result(fee | {"estimated_fee": "0.133668"})


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


@pytest.mark.parametrize("as_string", [True, False])
def test_an_id_is_answered_as_a_string_unless_the_setting_says_so(api: Api, settings: Any, as_string: bool) -> None:
    settings.RPC_ID_AS_STRING = as_string
    relayer()
    for sent in ("1", "", "\u9375\U0001f511", "x" * 10_000, 0, 1, -1, 2**53 + 1, 2**63, 2**70, -(2**70), None):
        answer = api.post(PATH, {"jsonrpc": "2.0", "id": sent, "method": "nothing"})
        identifier = str(sent) if as_string and sent is not None else sent
        expected = bodies.rpc_error(-32601, "Method not found", NO_METHOD, identifier=identifier)
        assert (answer.status, answer.body) == (200, expected)


def test_any_id_of_a_relayer_works(api: Api) -> None:
    expected = (200, bodies.rpc_error(-32601, "Method not found", NO_METHOD))
    odd = ("a b", "caf\u00e9", "\u9375\U0001f511", "a//b", "/", ".", "'\";--", "%", "%2F", "rpc", "a\nb")
    for identifier in (*odd, "a/b", "a/rpc", "..", "a/", "a"):
        relayer(identifier=identifier)
        answer = api.post(f"/api/v1/relayers/{quote(identifier, safe='')}/rpc", CALL | {"method": "nothing"})
        assert (identifier, answer.status, answer.body) == (identifier, *expected)
    # Also written without an escape.
    for path in ("a/b/rpc", "a/rpc/rpc", "../rpc", "a%2Frpc/rpc", "a//rpc", "a/rpc/", "a/rpc%2F"):
        answer = api.post(f"/api/v1/relayers/{path}", CALL | {"method": "nothing"})
        assert (path, answer.status, answer.body) == (path, *expected)


def test_an_unknown_relayer_is_not_found_by_the_id_as_it_was_sent(api: Api) -> None:
    relayer()
    for path, identifier in {
        **{same: same for same in ("relayer-2", "RELAYER-1", "a/b", "relayer-1/", "relayer-1/rpc", "..", "{id}")},
        "relayer-1%20": "relayer-1 ",
        "a%20b+c": "a b+c",
        "relayer-1%CC%81": "relayer-1\u0301",
        "a%2Fb": "a/b",
        "a%252Fb": "a%2Fb",
        "%2e%2e": "..",
        "%22%27%3C%3E": "\"'<>",
        "%00": "\0",
        "a%00b": "a\0b",
        "%0A": "\n",
        "%ff%fe": "%FF%FE",
        "x" * 300: "x" * 300,
        "%F0%9F%94%91" * 300: "\U0001f511" * 300,
    }.items():
        answer = api.post(f"/api/v1/relayers/{path}/rpc", CALL)
        assert (answer.status, answer.body) == (404, bodies.failure(f"Relayer with ID {identifier} not found"))
        assert answer.headers["content-type"] == "application/json"


def test_other_methods_are_not_offered(api: Api) -> None:
    relayer()
    for identifier in ("relayer-1", "relayer-2"):
        for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"):
            answer = api(method, f"/api/v1/relayers/{identifier}/rpc", CALL)
            assert (answer.status, answer.body) == (405, bodies.failure("Method Not Allowed"))
            assert answer.headers["allow"] == "POST"


def test_a_call_needs_a_token(api: Api, node: FeeNode) -> None:
    relayer(node)
    for sent in ("", "rms_unknown"):
        for identifier in ("relayer-1", "relayer-2"):
            for body in (json.dumps(CALL).encode(), b"{"):
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
    operation = read_document()["paths"]["/api/v1/relayers/{relayer_id}/rpc"]["post"]
    (request,) = operation["requestBody"]["content"]["application/json"]["examples"].values()
    answers = operation["responses"]["200"]["content"]["application/json"]["examples"]
    with serve(FeeNode(chain_id=SEPOLIA_CHAIN)) as sepolia:
        relayer(sepolia, network="sepolia")
        assert api.post(PATH, request["value"]).body == answers["Result"]["value"]
        refused = request["value"] | {"params": request["value"]["params"] | {"fee_token": "NONE"}}
        assert api.post(PATH, refused).body == answers["Failure"]["value"]


def test_the_document_names_every_code_of_an_error() -> None:
    told = read_document()["components"]["schemas"]["RpcError"]["properties"]["code"]["description"]
    codes = [-32601, -32602, -32603, *range(-32000, -32006, -1)]
    assert [line.split("`")[1] for line in told.splitlines() if line.startswith("-")] == [str(code) for code in codes]


def test_params_are_not_kept_from_one_call_to_the_next(api: Api, node: FeeNode) -> None:
    relayer(node)
    assert api.post(PATH, CALL).body == bodies.rpc_result(FEE)
    without = api.post(PATH, {name: value for name, value in CALL.items() if name != "params"})
    missing = "; ".join(f"{name}: this field is required" for name in PARAMS)
    assert without.body == bodies.rpc_error(-32602, "Invalid params", missing)
