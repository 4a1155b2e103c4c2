"""Names that OpenZeppelin Relayer has for networks: accepted everywhere, stored and shown as the service's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from chain import networks
from relayers.models import Relayer
from rpc.models import FeeToken
from tests.api import Api
from tests.relayers import factories
from tests.relayers.admin_pages import add, edit
from tests.relayers.config_files import SPARSE, document, load
from tokens.writes import issue

ALIAS = "binance-smart-chain"
TOKEN = {"network": ALIAS, "symbol": "USDC", "address": factories.ADDRESS, "sources": []}


@pytest.fixture
def manager(settings: Settings, user: User) -> Api:
    settings.EXTENSIONS = ["lifecycle"]
    return Api(issue(name="terraform", user=user, scopes=["manage"])[1])


def test_each_alias_stands_for_a_network_and_hides_none() -> None:
    known = networks.networks().keys()
    assert known >= {*networks.aliases().values()}
    assert not networks.aliases().keys() & (known | networks.closed().keys())


def test_a_network_of_the_networks_file_is_no_alias(tmp_path: Path, settings: Settings) -> None:
    entry = {"chain_id": 1337, "symbol": "ETH", "decimals": 18, "block_seconds": 12}
    (tmp_path / "networks.json").write_text(json.dumps({"networks": {ALIAS: entry}}))
    settings.NETWORKS_FILE = str(tmp_path / "networks.json")
    networks.networks.cache_clear()
    try:
        assert networks.resolve_alias(ALIAS) == ALIAS
    finally:
        networks.networks.cache_clear()


def test_rest_creates_and_finds_by_an_alias(manager: Api) -> None:
    factories.signer()
    body = {"id": "r", "name": "R", "network": ALIAS, "network_type": "evm", "signer_id": "signer-1", "paused": True}
    incomplete = manager.post("/api/v1/relayers", body | {"id": "other", "name": None})
    assert [each["message"] for each in incomplete.body["metadata"]["logs"]] == ["name: null is not allowed here"]
    created = manager.post("/api/v1/relayers", body)
    assert (created.status, created.body["data"]["network"]) == (201, "bsc")
    # One that an earlier release stored with the alias is found too.
    factories.relayer(identifier="old", network=ALIAS, chain_id=56)
    found = manager.get(f"/api/v1/relayers?network={ALIAS}").body["data"]
    assert [(relayer["id"], relayer["network"]) for relayer in found] == [("r", "bsc"), ("old", ALIAS)]
    token = manager.post("/api/v1/fee-tokens", TOKEN)
    assert (token.status, token.body["data"]["id"]) == (201, "bsc:USDC")
    tokens = manager.get(f"/api/v1/fee-tokens?network={ALIAS}").body["data"]
    assert [token["id"] for token in tokens] == ["bsc:USDC"]


def test_a_network_is_read_by_an_alias_and_its_type(manager: Api) -> None:
    answer = manager.get(f"/api/v1/networks/evm:{ALIAS}")
    assert (answer.status, answer.body["data"]["id"]) == (200, "evm:bsc")
    for identifier in (f"solana:{ALIAS}", ALIAS, "evm:", "bsc"):
        assert manager.get(f"/api/v1/networks/{identifier}").status == 404


@pytest.mark.django_db
def test_a_fleet_file_with_aliases_changes_nothing_when_it_is_loaded_again(tmp_path: Path) -> None:
    content: dict[str, Any] = document(SPARSE | {"network": ALIAS}, fee_tokens=[TOKEN])
    assert load(content, tmp_path)[0][-1] == "4 created, 0 updated, 0 unchanged."
    assert (Relayer.objects.get().network, FeeToken.objects.get().network) == ("bsc", "bsc")
    assert load(content, tmp_path)[0][-1] == "0 created, 0 updated, 4 unchanged."


@pytest.mark.django_db
def test_a_form_accepts_an_alias_and_keeps_a_stored_one_that_is_not_changed(admin_client: Client) -> None:
    add(admin_client, network=ALIAS)
    assert Relayer.objects.get().network == "bsc"
    urls = [{"url": "http://127.0.0.1:9", "weight": 100}]
    relayer = factories.relayer(identifier="old", network=ALIAS, chain_id=56, rpc_urls=urls)
    edit(admin_client, relayer, name="Renamed")
    relayer.refresh_from_db()
    assert (relayer.name, relayer.network) == ("Renamed", ALIAS)
