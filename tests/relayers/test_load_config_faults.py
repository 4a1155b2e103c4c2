"""Faults of `load_config`: each with its path, nothing changed, and no secret printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from notifications.models import Notification
from signers.config_shapes import SignerType
from signers.models import Signer
from tests.relayers.config_files import NOTIFICATION, OTHER_ADDRESS, OTHER_KEY, SIGNER, SPARSE, document, faults, load
from tests.relayers.factories import KEY
from tests.relayers.stub_nodes import stub_nodes
from tests.signers.examples import CONFIGS

pytestmark = pytest.mark.django_db


def test_every_fault_of_the_file_is_reported_at_once(tmp_path: Path) -> None:
    load(document(), tmp_path)
    content = {
        "signers": [
            {"id": "signer-1", "type": "provider_a_kms", "config": {"key_id": "a"}},
            {"id": "transit", "type": "provider_c_transit", "config": CONFIGS["provider_c_transit"]},
            {"id": "signer-1", "type": "plain", "config": {"key": 5, "kez": "x"}},
            {"type": "plan", "config": []},
            "signer",
        ],
        "notifications": [{"id": "hook-2", "type": "webhook", "url": "http://10.0.0.1/SECRET", "signing_key": 1}],
        "relayers": [
            SPARSE | {"signer_id": "transit", "notification_id": "hook-2"},
            SPARSE | {"id": "r-2", "signer_id": "ghost", "notification_id": "ghost", "network": "nowhere"},
            SPARSE | {"id": "r-3", "network_type": "solana", "chain_id": 0, "address": "0x12", "paused": "no"},
            SPARSE
            | {
                "id": "r-4",
                "network": "mainnet",
                "chain_id": 5,
                "policies": {"gas_price_cap": 2**128, "min_balance": 1.5, "whitelist_receivers": ["0x1"], "x": 1},
            },
            SPARSE | {"id": "r-5", "custom_rpc_urls": [{"url": "ftp://x"}, {"url": "https://a", "weight": 101}]},
            SPARSE | {"id": "r-6", "custom_rpc_urls": {}, "policies": [], "notification_id": None, "system": 1},
            {},
        ],
        "webhooks": [],
    }
    ed25519 = (
        "HashiCorp Vault Transit (provider_c_transit) is an Ed25519 signer: "
        "it signs messages only and cannot be used by an evm relayer."
    )
    amount = f"a whole number from 0 to {2**128 - 1} is required"
    assert faults(content, tmp_path) == [
        "webhooks: unknown field",
        "signers[0].config.region: this field is required",
        "signers[0].type: the type of a signer cannot change, and this one is plain",
        "signers[2].id: duplicate id",
        "signers[2].config.kez: unknown field",
        "signers[2].config.key: a string is required",
        "signers[3].id: this field is required",
        f"signers[3].type: must be one of: {', '.join(SignerType)}",
        "signers[3].config: an object is required",
        "signers[4]: an object is required",
        "notifications[0].url: private, local and reserved addresses are not allowed",
        "notifications[0].signing_key: a string is required",
        f"relayers[0].signer_id: {ed25519}",
        "relayers[1].signer_id: there is no signer with this id in the file or in the service",
        "relayers[1].notification_id: there is no webhook with this id in the file or in the service",
        "relayers[1].network: unknown network: custom RPC URLs and a chain ID are required",
        "relayers[2].network_type: must be one of: evm",
        f"relayers[2].chain_id: a whole number from 1 to {2**63 - 1} is required",
        "relayers[2].address: must be an EVM address: 0x and 40 hexadecimal digits",
        "relayers[2].paused: true or false is required",
        "relayers[3].policies.x: unknown field",
        f"relayers[3].policies.gas_price_cap: {amount}",
        f"relayers[3].policies.min_balance: {amount}",
        "relayers[3].policies.whitelist_receivers[0]: must be an EVM address: 0x and 40 hexadecimal digits",
        "relayers[3].chain_id: must be 1, the chain ID of mainnet",
        "relayers[4].custom_rpc_urls[0].url: an absolute http or https URL is required",
        "relayers[4].custom_rpc_urls[1].weight: a whole number from 0 to 100 is required",
        "relayers[5].system: unknown field",
        "relayers[5].notification_id: null is not allowed here",
        "relayers[5].custom_rpc_urls: a list is required",
        "relayers[5].policies: an object is required",
        "relayers[6].id: this field is required",
        "relayers[6].name: this field is required",
        "relayers[6].network: this field is required",
        "relayers[6].network_type: this field is required",
        "relayers[6].signer_id: this field is required",
    ]


def test_a_duplicate_id_is_one_fault_also_of_an_entry_with_an_unknown_signer(tmp_path: Path) -> None:
    load(document(SPARSE), tmp_path)
    other = {"id": "signer-1", "type": "plain", "config": {"key": OTHER_KEY}}
    content = {"signers": [SIGNER, other], "relayers": [SPARSE | {"signer_id": "ghost"}, SPARSE]}
    assert faults(content, tmp_path) == [
        "signers[1].id: duplicate id",
        "relayers[0].signer_id: there is no signer with this id in the file or in the service",
        "relayers[1].id: duplicate id",
    ]


def test_an_id_that_no_database_takes_is_a_fault(tmp_path: Path) -> None:
    relayer = SPARSE | {"signer_id": "a\0b", "name": 5, "custom_rpc_urls": [{"url": "https://node.example.com"}]}
    assert faults({"signers": [SIGNER | {"id": "a\0b"}], "relayers": [relayer]}, tmp_path) == [
        "signers[0].id: control characters are not allowed here",
        "signers[0].id: Null characters are not allowed.",
        "relayers[0].name: a string is required",
        "relayers[0].signer_id: Null characters are not allowed.",
    ]


def test_a_node_on_another_chain_is_refused_and_called_once(tmp_path: Path) -> None:
    with stub_nodes() as nodes:
        urls = {"custom_rpc_urls": [{"url": nodes.url(11155111)}, {"url": nodes.url(5)}]}
        found = faults(document(SPARSE | urls, SPARSE | urls | {"id": "relayer-2"}), tmp_path)
    fault = "custom_rpc_urls[1].url: this node is on chain 5, not on 11155111"
    assert found == [f"relayers[0].{fault}", f"relayers[1].{fault}"]
    assert sorted(nodes.asked) == ["/11155111/node-key-SECRET", "/5/node-key-SECRET"]


def test_a_file_of_another_shape_is_refused(tmp_path: Path) -> None:
    sections = "an object with some of signers, notifications, relayers and fee_tokens is required"
    for content, fault in {
        b"[]": sections,
        b"null": sections,
        b'{"signers": {}}': "signers: a list is required",
        b'{"signers": null}': "signers: a list is required",
    }.items():
        assert faults(content, tmp_path) == [fault]


def test_a_file_that_cannot_be_read_as_strict_json_is_refused(tmp_path: Path) -> None:
    for content, fault in {
        b"": "the file is not valid JSON",
        b'{"signers": ' + b"[" * 500 + b"]" * 500 + b"}": "the file is nested more than 64 levels deep",
        b'{"signers": [NaN]}': "the file is not valid JSON",
        b'{"signers": [], "signers": []}': "duplicate key",
        b'{"signers": ["\xff"]}': "the file is not valid UTF-8 text",
    }.items():
        with pytest.raises(CommandError) as raised:
            load(content, tmp_path)
        assert str(raised.value) == f"{tmp_path / 'config.json'}: {fault}"
    with pytest.raises(CommandError, match=r"Cannot read .*none\.json: No such file or directory"):
        call_command("load_config", str(tmp_path / "none.json"))


def test_references_stand_for_variables_which_can_hold_a_whole_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    google = CONFIGS["provider_b_kms"]
    monkeypatch.setenv("ACCOUNT", json.dumps(google["service_account"]))
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("_hook2", "in ${MY_KEY} and $${ it is taken as it is")
    signers = [
        SIGNER | {"config": {"key": "${MY_KEY}"}},
        {"id": "google", "type": "provider_b_kms", "config": google | {"service_account": "${ACCOUNT}"}},
    ]
    hook = NOTIFICATION | {"signing_key": "<${_hook2}> $${MY_KEY} $5"}
    load({"signers": signers, "notifications": [hook]}, tmp_path)
    assert [signer.full_config() for signer in Signer.objects.order_by("sequence")] == [{"key": KEY}, google]
    assert Notification.objects.get().signing_key == "<in ${MY_KEY} and $${ it is taken as it is> ${MY_KEY} $5"


def test_a_reference_that_stands_for_nothing_is_one_fault_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MISSING", raising=False)
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("NOT_TEXT", "\udcff")
    monkeypatch.setenv("IDENTIFIER", "from-outside-SECRET")
    content = {
        "signers": [SIGNER | {"config": {"key": "${MISSING}"}}],
        "notifications": [
            NOTIFICATION | {"url": "${MISSING}", "signing_key": "${EMPTY}"},
            NOTIFICATION | {"id": "${IDENTIFIER}", "signing_key": "${NOT_TEXT}"},
        ],
        "relayers": [
            SPARSE | {"address": OTHER_ADDRESS, "custom_rpc_urls": [{"url": "https://host/${MISSING-x}"}]},
            SPARSE | {"id": "b", "policies": {"whitelist_receivers": ["${ "]}},
        ],
    }
    written = "write a reference as ${NAME}, and a literal ${ as $${"
    assert faults(content, tmp_path) == [
        "signers[0].config.key: the environment variable MISSING is not set or empty",
        "notifications[0].url: the environment variable MISSING is not set or empty",
        "notifications[0].signing_key: the environment variable EMPTY is not set or empty",
        "notifications[1].id: an id cannot be taken from the environment",
        "notifications[1].signing_key: the environment variable NOT_TEXT is not UTF-8 text",
        f"relayers[0].custom_rpc_urls[0].url: {written}",
        f"relayers[1].policies.whitelist_receivers[0]: {written}",
    ]


def test_no_value_of_a_secret_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIDDEN", "hidden-SECRET")
    signers = [{"id": name, "type": name, "config": secret} for name, secret in CONFIGS.items()]
    signers.append({"id": "wrong", "type": "plain", "config": {"key": ["a-SECRET"], "${HIDDEN}": "b-SECRET"}})
    hooks = [
        NOTIFICATION,
        NOTIFICATION | {"id": "b", "url": "https://user:url-SECRET@a b/"},
        NOTIFICATION | {"id": "c", "url": "${HIDDEN}", "type": "${HIDDEN}"},
    ]
    urls = [{"url": "https://host:99999/node-SECRET"}, {"url": "${HIDDEN}", "weight": "${HIDDEN}"}]
    relayers = [SPARSE | {"signer_id": "${HIDDEN}", "network": "${HIDDEN}", "custom_rpc_urls": urls}]
    key = "0x" + "5ec2e7" * 10 + "5ec2"
    signers.append({"id": "named", "type": "plain", "config": {"key": "0x1"}, key: ""})
    told = faults({"signers": signers, "notifications": hooks, "relayers": relayers, key: []}, tmp_path)
    assert len(told) > 8
    assert [line for line in told if "SECRET" in line or "5ec2e7" in line] == []
