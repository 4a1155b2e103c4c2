"""Answers about relayers and networks: what was checked, what could not be, and what is refused."""

import json
import re
from datetime import timedelta
from typing import Any

from django.utils import timezone

from relayers.models import Relayer
from tests.api import Answer, Api
from tests.contract import bodies
from tests.relayers import factories
from tests.servers import PROJECT, free_port

EXPONENT = 'a number with an exponent may be rounded: send a string, such as "1000000000000000000000"'


def answered(answer: Answer, data: Any, status: int = 200) -> None:
    assert (answer.status, answer.body) == (status, bodies.success(data))


AMOUNTS = {
    b'{"policies":{"min_balance":null,"gas_price_cap":1.5e+21}}': "policies.gas_price_cap",
    b'{"spending_rules":{"max_value":1e+21,"max_value_per_day":"1"}}': "spending_rules.max_value",
    b'{"top_up":{"funding_relayer_id":"relayer-2","minimum":"1","target":1e+21,"daily_limit":"9"}}': "top_up.target",
}


def test_an_amount_with_an_exponent_is_refused(manager: Api) -> None:
    factories.relayer(policies={"min_balance": 5})
    for patch, amount in AMOUNTS.items():
        answer = manager.patch("/api/v1/relayers/relayer-1", raw=patch)
        assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(f"{amount}: {EXPONENT}"))
    assert Relayer.objects.get().policies == {"min_balance": 5}


def test_amounts_of_policies_are_created_and_changed_as_strings(manager: Api) -> None:
    factories.signer()
    body = {"name": "R", "network": "sepolia", "network_type": "evm", "signer_id": "signer-1", "paused": False}
    amount = 2**128 - 1
    created = manager.post("/api/v1/relayers", body | {"id": "r", "policies": {"min_balance": str(amount)}})
    assert (created.status, created.body["data"]["policies"]) == (201, {"min_balance": amount})
    changed = manager.patch("/api/v1/relayers/r", {"policies": {"gas_price_cap": "7", "min_balance": None}})
    assert (changed.status, changed.body["data"]["policies"]) == (200, {"gas_price_cap": 7})
    refused = manager.patch("/api/v1/relayers/r", {"policies": {"gas_price_cap": str(amount + 1)}})
    fault = f"policies.gas_price_cap: a whole number from 0 to {amount} is required"
    assert (refused.status, bodies.uncoded(refused.body)) == (400, bodies.bad_request(fault))


def test_what_could_not_be_checked_of_a_relayer_is_logged_in_the_answer(manager: Api) -> None:
    factories.signer("broken", "not a key")
    urls = [{"url": f"http://127.0.0.1:{free_port()}", "weight": 100}]
    body = {"id": "r", "name": "R", "network": "holesky", "network_type": "evm", "chain_id": 17000, "paused": False}
    shown = {name: value for name, value in body.items() if name != "chain_id"}
    data = shown | {"signer_id": "broken", "system_disabled": False, "custom_rpc_urls": urls}
    node = "custom_rpc_urls[0].url: the chain ID of this node was not checked: connection failed"
    logs = [
        "address: The signer cannot provide its address: The key must be a secp256k1 private key: 32 bytes in hex.",
        "network: holesky was shut down in 2025: use hoodi, or sepolia",
        node,
    ]
    created = manager.post("/api/v1/relayers", body | {"signer_id": "broken", "custom_rpc_urls": urls})
    assert (created.status, created.body) == (201, bodies.success(data, logs=logs))
    changed = manager.patch("/api/v1/relayers/r", {"custom_rpc_urls": urls})
    assert (changed.status, changed.body) == (200, bodies.success(data, logs=[node]))


def test_the_answer_names_another_relayer_with_the_account_of_a_new_one(manager: Api) -> None:
    factories.relayer(identifier="first", network="my-chain", chain_id=11155111)
    body = {
        "id": "r",
        "name": "R",
        "network": "sepolia",
        "network_type": "evm",
        "signer_id": "signer-1",
        "paused": False,
    }
    data = body | {"address": factories.ADDRESS, "system_disabled": False}
    text = "the relayer first has the same account on this chain, and only one of them can send: choose another signer"
    created = manager.post("/api/v1/relayers", body)
    assert (created.status, created.body) == (201, bodies.success(data, logs=[f"signer_id: {text}"]))


def test_the_documented_request_adds_a_webhook_with_the_documented_answer(manager: Api) -> None:
    text = (PROJECT / "docs/webhooks.md").read_text()
    (found,) = re.findall(r"POST .*?-d '(.*?)'.*?\n    ({.*?})\n\n", text, re.S)
    body, answer = map(json.loads, found)
    answered(manager.post("/api/v1/notifications", body), answer["data"], 201)


def test_the_status_of_a_relayer_is_that_of_its_last_check_if_any(manager: Api) -> None:
    moment = timezone.now()
    known = {"nonce": 7, "balance_text": str(2**100), "balance_at": moment - timedelta(hours=1)}
    factories.relayer(**known, checked_at=moment, paused=True)
    answered(
        manager.get("/api/v1/relayers/relayer-1/status"),
        {
            "network_type": "evm",
            "balance": str(2**100),
            "balance_at": f"{moment - timedelta(hours=1):%Y-%m-%dT%H:%M:%S.%fZ}",
            "nonce": "7",
            "pending_transactions_count": 0,
            "last_confirmed_transaction_timestamp": None,
            "paused": True,
            "system_disabled": False,
            "checked_at": f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}",
        },
    )
    factories.relayer(identifier="new")
    data = manager.get("/api/v1/relayers/new/status").body["data"]
    assert [data[name] for name in ("balance", "balance_at", "nonce", "checked_at")] == [None] * 4


def test_a_balance_that_no_node_returns_is_unavailable(manager: Api) -> None:
    factories.relayer(network="hardhat", rpc_urls=[{"url": "http://127.0.0.1:9", "weight": 100}])
    answer = manager.get("/api/v1/relayers/relayer-1/balance")
    assert (answer.status, answer.body) == (503, bodies.failure("No node answered: connection failed."))
    assert (answer.headers["retry-after"], answer.headers["error-code"]) == ("5", "nodes_unavailable")
