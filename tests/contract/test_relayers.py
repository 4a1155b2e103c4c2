"""Sections 2.4, 3, 4.4 and 8: listing relayers."""

from __future__ import annotations

import json
from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from relayers.models import Relayer
from tests.api import Api
from tests.contract import bodies
from tests.documents import read_document
from tests.relayers.factories import ADDRESS, notification, relayer, signer

RECEIVER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
REASON = "The nonce could not be read from any node: no node answered."
SPARSE = {
    "id": "relayer-1",
    "name": "Relayer 1",
    "network": "sepolia",
    "network_type": "evm",
    "signer_id": "signer-1",
    "paused": False,
    "system_disabled": False,
}


def shown(**changes: Any) -> dict[str, Any]:
    """What an answer shows of a relayer of the factory, with changes."""
    return SPARSE | {"address": ADDRESS} | changes


def test_a_relayer_with_everything_set_is_shown_whole(api: Api) -> None:
    policies = {
        "eip1559_pricing": True,
        "gas_limit_estimation": False,
        "gas_price_cap": 100_000_000_000,
        "min_balance": 1,
        "private_transactions": False,
        "whitelist_receivers": [RECEIVER],
    }
    relayer(
        identifier="full",
        name="Füll",
        signer=signer("full-signer"),
        notification=notification("full-hook"),
        paused=True,
        system_disabled=True,
        disabled_reason_type="NonceSyncFailed",
        disabled_reason_details=REASON,
        rpc_urls=[
            {"url": "https://rpc.example.com/v2/KEY", "weight": 70},
            {"url": "http://10.0.0.1:8545", "weight": 0},
        ],
        policies=policies,
    )
    answer = api.get("/api/v1/relayers")
    full = {
        "id": "full",
        "name": "Füll",
        "network": "sepolia",
        "network_type": "evm",
        "address": ADDRESS,
        "signer_id": "full-signer",
        "notification_id": "full-hook",
        "paused": True,
        "system_disabled": True,
        "disabled_reason": {"details": REASON, "type": "NonceSyncFailed"},
        "custom_rpc_urls": [
            {"url": "https://rpc.example.com/***", "weight": 70},
            {"url": "http://10.0.0.1:8545", "weight": 0},
        ],
        "policies": policies,
    }
    assert (answer.status, answer.body) == (200, bodies.page([full], total_items=1))
    assert answer.headers["content-type"] == "application/json"


def test_full_and_sparse_relayers_stand_beside_each_other(api: Api) -> None:
    relayer(identifier="a", notification=notification("hook-a"), policies={"eip1559_pricing": True})
    relayer(identifier="b", address="")
    relayer(identifier="c", notification=notification("hook-c"), paused=True)
    assert api.get("/api/v1/relayers").body == bodies.page(
        [
            shown(id="a", notification_id="hook-a", policies={"eip1559_pricing": True}),
            SPARSE | {"id": "b"},
            shown(id="c", notification_id="hook-c", paused=True),
        ],
        total_items=3,
    )


def test_only_the_policies_that_are_set_are_shown_exact_to_the_digit(api: Api) -> None:
    row = relayer()
    amounts = [0, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**128 - 1]
    for policies in (
        *({"eip1559_pricing": False}, {"gas_limit_estimation": True}, {"private_transactions": True}),
        *({"whitelist_receivers": []}, {"whitelist_receivers": [RECEIVER.lower(), RECEIVER]}),
        *({name: amount} for name in ("gas_price_cap", "min_balance") for amount in amounts),
    ):
        row.policies = policies
        row.save()
        answer = api.get("/api/v1/relayers")
        assert answer.body == bodies.page([shown(policies=policies)], total_items=1)
        assert f'"policies":{json.dumps(policies)}'.encode() in answer.text
        assert Relayer.objects.get().policies == policies


def test_rpc_urls_are_masked(api: Api) -> None:
    masked = {
        "https://user:SECRET@rpc.example.com": "https://rpc.example.com/***",
        "https://rpc.example.com:8443/v3/SECRET": "https://rpc.example.com:8443/***",
        "https://rpc.example.com/?apikey=SECRET": "https://rpc.example.com/***",
        "https://rpc.example.com#SECRET": "https://rpc.example.com/***",
        "http://[::1]:8545": "http://[::1]:8545",
    }
    relayer(rpc_urls=[{"url": url, "weight": 100} for url in masked])
    answer = api.get("/api/v1/relayers")
    urls = [{"url": url, "weight": 100} for url in masked.values()]
    assert answer.body == bodies.page([shown(custom_rpc_urls=urls)], total_items=1)
    assert b"SECRET" not in answer.text


def test_relayers_are_listed_in_the_order_of_their_creation(api: Api) -> None:
    for name in ("c", "a", "b"):
        relayer(identifier=name)
    assert api.get("/api/v1/relayers").body == bodies.page([shown(id=name) for name in "cab"], total_items=3)
    # A change does not move one.
    Relayer.objects.filter(identifier="c").update(paused=True)
    assert [each["id"] for each in api.get("/api/v1/relayers").body["data"]] == ["c", "a", "b"]


def test_relayers_come_in_pages(api: Api) -> None:
    for number in range(1, 13):
        relayer(identifier=f"relayer-{number}")
    all_shown = [shown(id=f"relayer-{number}") for number in range(1, 13)]
    far = int("9" * 400)
    for query, page in {
        "": bodies.page(all_shown[:10], total_items=12),
        "?page=2": bodies.page(all_shown[10:], current_page=2, total_items=12),
        "?page=0": bodies.page(all_shown[:10], total_items=12),
        f"?page={far}": bodies.page([], current_page=far, total_items=12),
        "?per_page=0": bodies.page([], per_page=0, total_items=12),
        "?per_page=1001": bodies.page(
            all_shown, per_page=1000, total_items=12, logs=["per_page was lowered to 1000, the maximum"]
        ),
    }.items():
        answer = api.get(f"/api/v1/relayers{query}")
        assert (query, answer.status, answer.body) == (query, 200, page)
    for query, fault in {
        "page=-1": "page: a whole number of at least 0 is required",
        "per_page=ten": "per_page: a whole number of at least 0 is required",
        "page=1&page=2": "page: given more than once",
    }.items():
        answer = api.get(f"/api/v1/relayers?{query}")
        assert (answer.status, answer.body) == (400, bodies.bad_request(fault))
    head = api("HEAD", "/api/v1/relayers")
    assert (head.status, head.text) == (200, b"")
    assert head.headers["content-length"] == str(len(api.get("/api/v1/relayers").text))


def test_the_list_needs_a_token(api: Api) -> None:
    relayer()
    for sent in ("", "rms_unknown"):
        answer = api.with_token(sent).get("/api/v1/relayers")
        assert (answer.status, answer.body) == (401, bodies.failure("Unauthorized"))
        assert answer.headers["www-authenticate"] == "Bearer"


def test_lists_past_the_rate_are_too_many_requests(api: Api, settings: Any) -> None:
    # A window that no test outlives.
    settings.RATE_LIMIT_LIST_RELAYERS = "3/d"
    answers = [api.get("/api/v1/relayers") for _ in range(4)]
    assert [(answer.status, answer.body) for answer in answers] == [
        *[(200, bodies.page([], total_items=0))] * 3,
        (429, bodies.failure("Too Many Requests")),
    ]
    assert 1 <= int(answers[3].headers["retry-after"]) <= 24 * 60 * 60
    # Other lists have no part in it.
    assert api.get("/api/v1/signers").body == bodies.page([], total_items=0)


def test_other_methods_are_not_offered(api: Api) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        answer = api(method, "/api/v1/relayers", {"id": "relayer-1"})
        assert (answer.status, answer.body) == (405, bodies.failure("Method Not Allowed"))
        assert answer.headers["allow"] == "GET, HEAD"
    assert not Relayer.objects.exists()


def test_the_example_of_the_document_is_what_the_server_answers(api: Api) -> None:
    answer = read_document()["paths"]["/api/v1/relayers"]["get"]["responses"]["200"]["content"]["application/json"]
    (example,) = (each["value"] for each in answer["examples"].values())
    (listed,) = example["data"]
    relayer(
        notification=notification("notification-1"),
        system_disabled=True,
        disabled_reason_type=listed["disabled_reason"]["type"],
        disabled_reason_details=listed["disabled_reason"]["details"],
        rpc_urls=[{"url": "https://rpc.example.com/KEY", "weight": 100}],
        policies=listed["policies"],
    )
    assert api.get("/api/v1/relayers").body == example


def test_the_document_has_amounts_as_integers_and_names_what_is_always_there() -> None:
    schemas = read_document()["components"]["schemas"]
    policies = schemas["EvmPolicies"]["properties"]
    assert {name: (each["type"], each.get("maximum")) for name, each in policies.items()} == {
        "eip1559_pricing": ("boolean", None),
        "gas_limit_estimation": ("boolean", None),
        "gas_price_cap": ("integer", 2**128 - 1),
        "min_balance": ("integer", 2**128 - 1),
        "private_transactions": ("boolean", None),
        "whitelist_receivers": ("array", None),
    }
    assert sorted(schemas["Relayer"]["required"]) == sorted(SPARSE)


def test_a_page_is_one_statement_whatever_its_relayers_refer_to(client: Client, token: str) -> None:
    for number in range(5):
        relayer(
            identifier=f"relayer-{number}",
            signer=signer(f"signer-{number}"),
            notification=notification(f"hook-{number}"),
        )
    headers = {"Authorization": f"Bearer {token}"}
    # The first request verifies the token.
    client.get("/api/v1/relayers", headers=headers)
    with CaptureQueriesContext(connection) as queries:
        answer = client.get("/api/v1/relayers", headers=headers)
    listed = [(each["id"], each["signer_id"], each["notification_id"]) for each in answer.json()["data"]]
    assert listed == [(f"relayer-{number}", f"signer-{number}", f"hook-{number}") for number in range(5)]
    assert len(queries) == 1
