"""Changing a relayer by a JSON Merge Patch (RFC 7396)."""

from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from relayers.models import Relayer
from signers.models import Signer
from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY
from tests.signers.examples import CONFIGS

PATH = "/api/v1/relayers/relayer-1"
NODE = "http://127.0.0.1:9"


FAULTS: list[tuple[Any, str]] = [
    ({"custom_rpc_urls": [{"weight": 5}]}, "custom_rpc_urls[0].url: this field is required"),
    ({"name": None}, "name: null is not allowed here"),
    ([], "an object is required"),
]


def test_a_patch_that_makes_no_relayer_is_refused(manager: Api) -> None:
    factories.relayer()
    for patch, fault in FAULTS:
        answer = manager.patch(PATH, patch)
        assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))
    # A node without a weight has the whole one.
    answer = manager.patch(PATH, {"custom_rpc_urls": [{"url": NODE}]})
    assert (answer.status, answer.body["data"]["custom_rpc_urls"]) == (200, [{"url": NODE, "weight": 100}])


def test_null_removes(manager: Api) -> None:
    rpc_urls = [{"url": NODE, "weight": 100}]
    factories.relayer(
        notification=factories.notification("hook-1"),
        rpc_urls=rpc_urls,
        policies={"min_balance": 5, "gas_price_cap": 7},
    )
    manager.patch(PATH, {"notification_id": None, "custom_rpc_urls": None, "policies": {"min_balance": None}})
    stored = Relayer.objects.get()
    assert (stored.notification, stored.custom_rpc_urls, stored.policies) == (None, None, {"gas_price_cap": 7})
    manager.patch(PATH, {"policies": None})
    assert Relayer.objects.get().policies == {}


AMOUNTS = {
    b"1234567890123456789012": 1234567890123456789012,
    b'"123456789012345678901234"': 123456789012345678901234,
    **dict.fromkeys([b'"1e21"', b"1.23456789012345678901234E23", b"1234567890123456789012.0", b"1.5"]),
    **dict.fromkeys([b"-1e21", b"1e300", b"1e400", b"NaN"]),
}


def test_an_amount_is_stored_exactly_or_refused(manager: Api) -> None:
    factories.relayer()
    for written, stored in AMOUNTS.items():
        Relayer.objects.update(policies={})
        answer = manager.patch(PATH, raw=b'{"policies":{"min_balance":%s}}' % written)
        found = Relayer.objects.get().policies.get("min_balance")
        assert (answer.status, found) == (200 if stored else 400, stored), written


def test_a_merge_patch_may_be_called_one(manager: Api) -> None:
    factories.relayer()
    media_type = {"Content-Type": "application/merge-patch+json"}
    assert manager.patch(PATH, {"name": "Refunds"}, headers=media_type).body["data"]["name"] == "Refunds"
    answer = manager.post("/api/v1/relayers", {}, headers=media_type)
    assert (answer.status, bodies.uncoded(answer.body)) == (
        400,
        bodies.bad_request("the content type must be application/json"),
    )


def test_a_new_signer_brings_its_address(manager: Api) -> None:
    factories.relayer(policies={"min_balance": 5}, nonce=7)
    factories.signer("signer-2", OTHER_KEY)
    answer = manager.patch(PATH, {"signer_id": "signer-2"})
    shown = {"id": "relayer-1", "name": "Relayer 1", "network": "sepolia", "network_type": "evm", "paused": False}
    shown |= {"address": OTHER_ADDRESS, "signer_id": "signer-2", "system_disabled": False}
    assert (answer.status, answer.body) == (200, bodies.success(shown | {"policies": {"min_balance": 5}}))
    stored = Relayer.objects.get()
    # What was read of the old account is forgotten.
    assert (stored.signer.identifier, stored.address, stored.health.nonce) == ("signer-2", OTHER_ADDRESS, None)


def test_a_signer_that_does_not_fit_is_refused(manager: Api) -> None:
    factories.relayer()
    transit = Signer(identifier="signer-2", type="provider_c_transit")
    transit.set_config(CONFIGS["provider_c_transit"])
    transit.save()
    fault = (
        "signer_id: HashiCorp Vault Transit (provider_c_transit) is an Ed25519 signer: it signs messages only and "
        "cannot be used by an evm relayer."
    )
    assert bodies.uncoded(manager.patch(PATH, {"signer_id": "signer-2"}).body) == bodies.bad_request(fault)
    unknown = "signer_id: object with this ID does not exist"
    assert bodies.uncoded(manager.patch(PATH, {"signer_id": "signer-9"}).body) == bodies.bad_request(unknown)
    missing = "signer_id: null is not allowed here"
    assert bodies.uncoded(manager.patch(PATH, {"signer_id": None}).body) == bodies.bad_request(missing)
    assert Relayer.objects.get().signer.identifier == "signer-1"


def test_a_signer_is_locked_before_its_relayer(manager: Api) -> None:
    factories.relayer()
    factories.signer("signer-2", OTHER_KEY)
    with CaptureQueriesContext(connection) as queries:
        manager.patch(PATH, {"signer_id": "signer-2"})
    statements = [query["sql"] for query in queries]
    started = next(index for index, sql in enumerate(statements) if sql.startswith("SAVEPOINT"))
    tables = [sql.partition(" FROM ")[2].split()[0].strip('"') for sql in statements[started:] if " FROM " in sql]
    assert tables[:2] == ["signers_signer", "relayers_relayer"]
