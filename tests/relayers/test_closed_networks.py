"""Networks that were shut down: the fault or warning names the successor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from chain import networks
from tests.relayers import factories
from tests.relayers.config_files import SPARSE, document, faults, load
from tests.relayers.stub_nodes import StubNodes, stub_nodes

CLOSED = "holesky was shut down in 2025: use hoodi, or sepolia"
HOLESKY = 17000

pytestmark = pytest.mark.django_db


@pytest.fixture
def nodes() -> Iterator[StubNodes]:
    with stub_nodes() as found:
        yield found


def test_a_fleet_file_that_names_one_is_refused_with_what_to_use_instead(tmp_path: Path) -> None:
    token = {"network": "holesky", "symbol": "USDC", "address": factories.ADDRESS, "sources": []}
    assert faults(document(SPARSE | {"network": "holesky"}, fee_tokens=[token]), tmp_path) == [
        f"relayers[0].network: {CLOSED}",
        f"fee_tokens[0].network: {CLOSED}",
    ]


def test_a_fleet_file_may_name_one_with_nodes_of_its_own_and_is_warned(tmp_path: Path, nodes: StubNodes) -> None:
    own = {"network": "holesky", "chain_id": HOLESKY, "custom_rpc_urls": [{"url": nodes.url(HOLESKY)}]}
    assert load(document(SPARSE | own), tmp_path) == (
        [
            "signer signer-1: created",
            "webhook hook-1: created",
            "relayer relayer-1: created",
            "3 created, 0 updated, 0 unchanged.",
        ],
        [f"Warning: relayers[0].network: {CLOSED}"],
    )


def test_a_file_of_networks_may_have_one_again(tmp_path: Path, settings: Settings) -> None:
    entry = {"chain_id": HOLESKY, "symbol": "ETH", "decimals": 18, "block_seconds": 12}
    (tmp_path / "networks.json").write_text(json.dumps({"networks": {"holesky": entry}}))
    settings.NETWORKS_FILE = str(tmp_path / "networks.json")
    networks.networks.cache_clear()
    try:
        output, warnings = load(document(SPARSE | {"network": "holesky"}), tmp_path)
    finally:
        networks.networks.cache_clear()
    assert (output[-1], warnings) == ("3 created, 0 updated, 0 unchanged.", [])
