"""Checking a fleet file without the database: by the rules of an empty service, and without calls."""

from __future__ import annotations

import json
from typing import Any

from relayer_service.fleet.planning import find_faults
from tests.relayers.factories import ADDRESS, KEY
from tests.servers import PROJECT

EXAMPLE = json.loads((PROJECT / "examples/config.json").read_text())
ENVIRONMENT = {
    "TREASURY_KEY": KEY,
    "TREASURY_ADDRESS": ADDRESS,
    "OPS_SIGNING_KEY": "key",
    "MAINNET_RPC_URL": "https://rpc.example.com",
    "MAINNET_BACKUP_RPC_URL": "https://backup.example.com",
}


def test_the_example_has_no_faults_but_for_a_variable_that_is_not_set() -> None:
    assert find_faults(EXAMPLE, ENVIRONMENT) == []
    fault = "the environment variable TREASURY_KEY is not set or empty"
    assert find_faults(EXAMPLE, ENVIRONMENT | {"TREASURY_KEY": ""}) == [("signers[0].config.key", fault)]


def test_the_rules_of_each_section_are_applied() -> None:
    changes: dict[str, dict[str, Any]] = {
        "signers": {"config": {}},
        "notifications": {"url": "mailto:a@example.com"},
        "relayers": {"network": "moon", "custom_rpc_urls": []},
        "fee_tokens": {"network": "moon"},
    }
    changed = {name: [EXAMPLE[name][0] | each, *EXAMPLE[name][1:]] for name, each in changes.items()}
    assert sorted(find_faults(EXAMPLE | changed, ENVIRONMENT)) == [
        ("fee_tokens[0].network", "unknown network: add it to NETWORKS_FILE"),
        ("notifications[0].url", "an absolute http or https URL is required"),
        ("relayers[0].network", "unknown network: custom RPC URLs and a chain ID are required"),
        ("signers[0].config.key", "this field is required"),
    ]
