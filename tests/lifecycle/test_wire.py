"""Each operation as the published TypeScript client of the interface sends it, and the whole answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.utils import timezone

from relayers.models import Relayer
from signers.models import Signer
from tests.api import Answer, Api
from tests.contract import bodies
from tests.relayers import factories
from tests.relayers.factories import ADDRESS, KEY
from tests.relayers.stand_in_node import StandInNode, serve
from tests.servers import free_port

ID = "a/b c"
# As `encodeURIComponent` writes it.
ENCODED = quote(ID, safe="!'()*~")

SIGNER = {"id": ID, "type": "local", "config": {}}
NOTIFICATION = {"id": ID, "type": "webhook", "url": "https://hooks.example.com/a", "has_signing_key": True}
MANAGED = NOTIFICATION | {"enabled": True, "events": ["relayer.*", "transaction.*"]}
RELAYER = {
    "id": ID,
    "name": "Payments",
    "network": "sepolia",
    "network_type": "evm",
    "address": ADDRESS,
    "signer_id": "signer-1",
    "paused": False,
    "system_disabled": False,
}


@pytest.fixture
def node() -> Iterator[StandInNode]:
    with serve(StandInNode(chain_id=31337, balance=2**70)) as node:
        yield node


def send(api: Api, method: str, path: str, body: Any = None) -> Answer:
    """Send a request with the client's headers: a content type with a body alone, and no charset."""
    headers = {"Accept": "application/json, text/plain, */*", "User-Agent": "axios/1.7.9"}
    raw = None if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
    return api(method, path, raw=raw, headers=headers)


def answered(answer: Answer, data: Any, status: int = 200) -> None:
    assert (answer.status, answer.body) == (status, bodies.success(data))


def test_a_signer_is_created_read_refused_a_change_and_deleted(manager: Api) -> None:
    path = f"/api/v1/signers/{ENCODED}"
    answered(
        send(manager, "POST", "/api/v1/signers", {"id": ID, "type": "plain", "config": {"key": KEY}}), SIGNER, 201
    )
    answered(send(manager, "GET", path), SIGNER)
    refused = send(manager, "PATCH", path, {})
    why = "a signer cannot be changed: create another one, assign it to the relayers and delete this one"
    assert (refused.status, bodies.uncoded(refused.body)) == (400, bodies.bad_request(why))
    answered(send(manager, "DELETE", path), "Signer deleted successfully")
    gone = send(manager, "GET", path)
    assert (gone.status, gone.body) == (404, bodies.failure(f"Signer with ID {ID} not found"))


def test_a_notification_is_created_listed_read_changed_and_deleted(manager: Api) -> None:
    path = f"/api/v1/notifications/{ENCODED}"
    body = {"id": ID, "url": "https://hooks.example.com/a", "type": "webhook", "signing_key": "k" * 32}
    answered(send(manager, "POST", "/api/v1/notifications", body), MANAGED, 201)
    listed = send(manager, "GET", "/api/v1/notifications?page=1&per_page=5")
    assert listed.body == bodies.page([MANAGED], per_page=5, total_items=1)
    answered(send(manager, "GET", path), MANAGED)
    changed = NOTIFICATION | {"url": "https://hooks.example.com/b"}
    answered(send(manager, "PATCH", path, {"url": "https://hooks.example.com/b"}), changed)
    answered(send(manager, "DELETE", path), "Notification deleted successfully")
    gone = send(manager, "GET", path)
    assert (gone.status, gone.body) == (404, bodies.failure(f"Notification with ID {ID} not found"))


def test_a_relayer_is_created_read_changed_and_deleted(manager: Api) -> None:
    factories.signer()
    factories.notification("hook-1")
    path = f"/api/v1/relayers/{ENCODED}"
    body = {
        "id": ID,
        "name": "Payments",
        "network": "sepolia",
        "network_type": "evm",
        "signer_id": "signer-1",
        "paused": False,
        "policies": {"min_balance": 1},
    }
    answered(send(manager, "POST", "/api/v1/relayers", body), RELAYER | {"policies": {"min_balance": 1}}, 201)
    answered(send(manager, "GET", path), RELAYER | {"policies": {"min_balance": 1}})
    # The client's numbers are those of JavaScript: from 1e21 on they are written with an exponent.
    policies = b'{"min_balance":null,"gas_price_cap":1.5e+21}'
    patch = b'{"name":"Refunds","paused":true,"policies":%s,"notification_id":"hook-1"}' % policies
    changed = RELAYER | {
        "name": "Refunds",
        "paused": True,
        "policies": {"gas_price_cap": 15 * 10**20},
        "notification_id": "hook-1",
    }
    answered(send(manager, "PATCH", path, patch), changed)
    answered(send(manager, "DELETE", path), "Relayer deleted successfully")
    gone = send(manager, "GET", path)
    assert (gone.status, gone.body) == (404, bodies.failure(f"Relayer with ID {ID} not found"))


def test_an_amount_with_an_exponent_is_refused_and_names_the_string(manager: Api) -> None:
    factories.relayer()
    rules = b'{"spending_rules":{"max_value":1e+21,"max_value_per_day":"1000000000000000000000"}}'
    answer = send(manager, "PATCH", "/api/v1/relayers/relayer-1", rules)
    why = 'a number with an exponent may be rounded: send a string, such as "1000000000000000000000"'
    assert (answer.status, bodies.uncoded(answer.body)) == (
        400,
        bodies.bad_request(f"spending_rules.max_value: {why}"),
    )
    top_up = b'{"funding_relayer_id":"relayer-2","minimum":"1","target":1e+21,"daily_limit":"9"}'
    answer = send(manager, "PATCH", "/api/v1/relayers/relayer-1", b'{"top_up":%s}' % top_up)
    assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(f"top_up.target: {why}"))


def test_what_could_not_be_checked_of_a_relayer_is_logged_in_the_answer(manager: Api) -> None:
    factories.signer("broken", "not a key")
    urls = [{"url": f"http://127.0.0.1:{free_port()}", "weight": 100}]
    body = {"id": "r", "name": "R", "network": "holesky", "network_type": "evm", "chain_id": 17000, "paused": False}
    shown = {name: value for name, value in body.items() if name != "chain_id"}
    data = shown | {"signer_id": "broken", "system_disabled": False, "custom_rpc_urls": urls}
    node = "custom_rpc_urls[0].url: the chain ID of this node was not checked: the connection failed"
    logs = [
        "address: The signer cannot provide its address: The key must be a secp256k1 private key: 32 bytes in hex.",
        "network: holesky was shut down in 2025: use hoodi, or sepolia",
        node,
    ]
    created = send(manager, "POST", "/api/v1/relayers", body | {"signer_id": "broken", "custom_rpc_urls": urls})
    assert (created.status, created.body) == (201, bodies.success(data, logs=logs))
    changed = send(manager, "PATCH", "/api/v1/relayers/r", {"custom_rpc_urls": urls})
    assert (changed.status, changed.body) == (200, bodies.success(data, logs=[node]))


def test_the_status_of_a_relayer_is_that_of_its_last_check(manager: Api) -> None:
    moment = timezone.now()
    known = {"nonce": 7, "balance_text": str(2**100), "balance_at": moment - timedelta(hours=1)}
    factories.relayer(**known, checked_at=moment, paused=True)
    answered(
        send(manager, "GET", "/api/v1/relayers/relayer-1/status"),
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


def test_a_relayer_that_was_never_checked_says_so(manager: Api) -> None:
    factories.relayer()
    data = send(manager, "GET", "/api/v1/relayers/relayer-1/status").body["data"]
    assert [data[name] for name in ("balance", "balance_at", "nonce", "checked_at")] == [None] * 4


def test_the_balance_of_a_relayer_is_read_from_a_node_exactly(manager: Api, node: StandInNode) -> None:
    factories.relayer(network="hardhat", rpc_urls=[{"url": node.url, "weight": 100}])
    answered(send(manager, "GET", "/api/v1/relayers/relayer-1/balance"), {"balance": 2**70, "unit": "wei"})


def test_a_balance_that_no_node_returns_is_unavailable(manager: Api) -> None:
    factories.relayer(network="hardhat", rpc_urls=[{"url": "http://127.0.0.1:9", "weight": 100}])
    answer = send(manager, "GET", "/api/v1/relayers/relayer-1/balance")
    assert (answer.status, answer.body) == (503, bodies.failure("No node answered: the connection failed."))
    assert (answer.headers["retry-after"], answer.headers["error-code"]) == ("5", "nodes_unavailable")


def test_networks_are_listed_and_read(manager: Api) -> None:
    listed = send(manager, "GET", "/api/v1/networks?page=1&per_page=2").body
    assert listed["pagination"]["per_page"] == len(listed["data"]) == 2
    answered(
        send(manager, "GET", "/api/v1/networks/evm%3Ahardhat"),
        {
            "id": "evm:hardhat",
            "name": "hardhat",
            "network_type": "evm",
            "chain_id": 31337,
            "symbol": "ETH",
            "is_testnet": True,
            "average_blocktime_ms": 1000,
            "rpc_urls": [{"url": "http://127.0.0.1:8545", "weight": 100}],
        },
    )
    found = send(manager, "GET", "/api/v1/networks?q=HARDH").body
    assert [network["id"] for network in found["data"]] == ["evm:hardhat"]
    gone = send(manager, "GET", "/api/v1/networks/evm%3Amoon")
    assert (gone.status, gone.body) == (404, bodies.failure("Network with ID evm:moon not found"))


def test_a_network_is_refused_a_change(manager: Api) -> None:
    answer = send(manager, "PATCH", "/api/v1/networks/evm%3Ahardhat", {"rpc_urls": ["https://node.example.com"]})
    why = "Networks cannot be changed over REST: change NETWORKS_FILE, or custom_rpc_urls of a relayer"
    assert (answer.status, answer.body) == (405, bodies.failure(why))
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["health", "ready"])
def test_health_and_readiness_need_no_token(db: None, path: str) -> None:
    assert Api().get(f"/api/v1/{path}").text == Api().get(f"/{path}").text


def test_lists_end_with_or_without_a_slash(manager: Api) -> None:
    for resource in ("signers", "notifications", "relayers", "networks"):
        assert send(manager, "GET", f"/api/v1/{resource}/").status == 200
    assert (Signer.objects.count(), Relayer.objects.count()) == (0, 0)
