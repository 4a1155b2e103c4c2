"""Checking a fleet file without the database: by the rules of an empty service, and without calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
UNKNOWN = "unknown network: custom RPC URLs and a chain ID are required"


def test_the_example_has_no_faults() -> None:
    assert find_faults(EXAMPLE, ENVIRONMENT) == []


@pytest.mark.parametrize(
    ("name", "changes", "faults"),
    [
        ("signers", {"config": {}}, [("signers[0].config.key", "this field is required")]),
        (
            "notifications",
            {"url": "mailto:a@example.com"},
            [("notifications[0].url", "an absolute http or https URL is required")],
        ),
        (
            "notifications",
            {"id": "ops/test"},
            [
                ("notifications[0].id", "an id must not end with /test, which is a path of the API"),
                ("relayers[0].notification_id", "there is no webhook with this id in the file or in the service"),
            ],
        ),
        (
            "relayers",
            {"network": "moon", "chain_id": 0},
            [("relayers[0].chain_id", "a whole number from 1 to 9223372036854775807 is required")],
        ),
        ("relayers", {"network": "moon", "custom_rpc_urls": []}, [("relayers[0].network", UNKNOWN)]),
        ("relayers", {"chain_id": 5}, [("relayers[0].chain_id", "must be 1, the chain ID of mainnet")]),
        (
            "relayers",
            {"signer_id": "x"},
            [("relayers[0].signer_id", "there is no signer with this id in the file or in the service")],
        ),
        ("fee_tokens", {"network": "moon"}, [("fee_tokens[0].network", "unknown network: add it to NETWORKS_FILE")]),
    ],
)
def test_a_rule_is_applied(name: str, changes: dict[str, Any], faults: list[Any]) -> None:
    first, *others = EXAMPLE[name]
    assert sorted(find_faults(EXAMPLE | {name: [first | changes, *others]}, ENVIRONMENT)) == sorted(faults)


def test_a_variable_that_the_environment_lacks_is_a_fault() -> None:
    fault = "the environment variable TREASURY_KEY is not set or empty"
    assert find_faults(EXAMPLE, ENVIRONMENT | {"TREASURY_KEY": ""}) == [("signers[0].config.key", fault)]
