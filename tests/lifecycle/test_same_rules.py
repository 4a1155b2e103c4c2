"""No way in is looser than another: admin, fleet file and REST refuse the same relayers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.test import Client

from notifications.models import Notification
from relayers.models import Relayer
from relayers.policy_fields import PREFIX
from signers.models import Signer
from tests.api import Api
from tests.relayers import factories
from tests.relayers.admin_pages import ADD, send_form
from tests.relayers.config_files import load
from tests.relayers.stand_in_node import StandInNode, serve

GOOD: dict[str, Any] = {
    "id": "relayer-2",
    "name": "Relayer 2",
    "network": "sepolia",
    "network_type": "evm",
    "signer_id": "signer-1",
    "paused": False,
}
OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
# Stands for the URL of a node on another chain.
ELSEWHERE = "http://elsewhere"


def node(url: str, weight: int = 100) -> dict[str, Any]:
    return {"custom_rpc_urls": [{"url": url, "weight": weight}]}


def policies(**values: Any) -> dict[str, Any]:
    return {"policies": values}


BAD: dict[str, dict[str, Any]] = {
    "no id": {"id": ""},
    "a control character in the id": {"id": "a\x07b"},
    "a long id": {"id": "x" * 256},
    "an id like a status": {"id": "a/status"},
    "no name": {"name": ""},
    "a long name": {"name": "x" * 256},
    "an unknown network": {"network": "moon"},
    "a chain id of 0": {"chain_id": 0},
    "a short address": {"address": "0x1234"},
    "an address with a wrong checksum": {"address": OTHER.replace("c", "C", 1)},
    "an unknown signer": {"signer_id": "signer-9"},
    "an unknown notification": {"notification_id": "hook-9"},
    "a URL of another protocol": node("ftp://node.example.com"),
    "a URL where clouds serve metadata": node("http://169.254.169.254/latest"),
    "a URL as answers show it": node("https://node.example.com/***"),
    "a weight above 100": node("https://node.example.com", 101),
    "a node on another chain": node(ELSEWHERE),
    "a negative balance": policies(min_balance=-1),
    "a balance that no wallet has": policies(min_balance=2**128),
    "a cap of half a wei": policies(gas_price_cap=0.5),
    "a receiver that is no address": policies(whitelist_receivers=["bob"]),
}


@pytest.fixture
def elsewhere() -> Iterator[StandInNode]:
    with serve(StandInNode(chain_id=1)) as running:
        yield running


@pytest.fixture(autouse=True)
def others(db: None) -> None:
    factories.signer()
    factories.notification("hook-1")


def sent(bad: str, elsewhere: StandInNode) -> dict[str, Any]:
    relayer = GOOD | BAD.get(bad, {})
    urls = relayer.get("custom_rpc_urls", [])
    return relayer | (node(elsewhere.url) if urls and urls[0]["url"] == ELSEWHERE else {})


def to_admin(client: Client, relayer: dict[str, Any]) -> None:
    """Type a relayer into the add page and save it."""
    typed: dict[str, Any] = {
        name: relayer[name] for name in ("name", "network", "chain_id", "address") if name in relayer
    }
    typed["identifier"] = relayer["id"]
    for field, model in (("signer", Signer), ("notification", Notification)):
        if identifier := relayer.get(f"{field}_id"):
            row = model.objects.filter(identifier=identifier).first()
            typed[field] = row.pk if row else 999
    for index, entry in enumerate(relayer.get("custom_rpc_urls", [])):
        typed |= {f"rpc_urls-{index}-url": entry["url"], f"rpc_urls-{index}-weight": entry["weight"]}
    for name, value in relayer.get("policies", {}).items():
        typed[PREFIX + name] = "\n".join(value) if isinstance(value, list) else value
    send_form(client, ADD, typed)


def test_a_bad_relayer_is_refused_whichever_way_it_comes(
    manager: Api, admin_client: Client, tmp_path: Path, elsewhere: StandInNode
) -> None:
    for bad in BAD:
        relayer = sent(bad, elsewhere)
        assert manager.post("/api/v1/relayers", relayer).status == 400, bad
        with pytest.raises(CommandError):
            load({"relayers": [relayer]}, tmp_path)
        to_admin(admin_client, relayer)
        assert not Relayer.objects.exists(), bad


@pytest.mark.parametrize("way", ["REST", "file", "admin"])
def test_a_good_relayer_is_taken_whichever_way_it_comes(
    manager: Api, admin_client: Client, tmp_path: Path, elsewhere: StandInNode, way: str
) -> None:
    relayer = sent("", elsewhere) | node("https://node.invalid") | policies(min_balance=5, whitelist_receivers=[OTHER])
    if way == "REST":
        assert manager.post("/api/v1/relayers", relayer).status == 201
    elif way == "file":
        load({"relayers": [relayer]}, tmp_path)
    else:
        to_admin(admin_client, relayer)
    stored = Relayer.objects.get()
    assert (stored.identifier, stored.address, stored.custom_rpc_urls, stored.policies) == (
        "relayer-2",
        factories.ADDRESS,
        [{"url": "https://node.invalid", "weight": 100}],
        {"min_balance": 5, "whitelist_receivers": [OTHER]},
    )
