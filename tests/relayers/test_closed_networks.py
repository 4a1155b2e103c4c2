"""Networks that were shut down: the fault or warning names the successor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytest_django import Settings

from chain import networks
from tests.relayers import factories
from tests.relayers.config_files import SPARSE, document, faults, load

CLOSED = "holesky was shut down in 2025: use hoodi, or sepolia"
HOLESKY = 17000

pytestmark = pytest.mark.django_db


def test_a_fleet_file_that_names_one_is_refused_with_what_to_use_instead(tmp_path: Path) -> None:
    token = {"network": "holesky", "symbol": "USDC", "address": factories.ADDRESS, "sources": []}
    assert faults(document(SPARSE | {"network": "holesky"}, fee_tokens=[token]), tmp_path) == [
        f"relayers[0].network: {CLOSED}",
        f"fee_tokens[0].network: {CLOSED}",
    ]


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
