"""Configurations in the shape of OpenZeppelin Relayer's files, with fixed values, and running the import on them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from eth_account import Account

from tests.relayers.factories import KEY

PASSPHRASE = "passphrase-SECRET"
KEYSTORE = Account.encrypt(bytes.fromhex(KEY[2:]), PASSPHRASE, kdf="scrypt", iterations=2)


def env(name: str) -> dict[str, str]:
    return {"type": "env", "value": name}


def plain(text: str) -> dict[str, str]:
    return {"type": "plain", "value": text}


VAULT = {
    "address": "https://vault.example.com",
    "role_id": env("VAULT_ROLE_ID"),
    "secret_id": plain("vault-${SECRET"),
    "key_name": "relayer-1",
    "mount_point": "kv",
}
SIGNER_CONFIGS: dict[str, dict[str, Any]] = {
    "local": {"path": "config/keys/local.json", "passphrase": env("KEYSTORE_PASSPHRASE")},
    "aws_kms": {"region": "eu-central-1", "key_id": "a-key"},
    "google_cloud_kms": {
        "service_account": {
            "project_id": "example",
            "private_key_id": env("GOOGLE_KEY_ID"),
            "private_key": env("GOOGLE_KEY"),
            "client_email": plain("relayer@example.com"),
            "client_id": "1",
        },
        "key": {"location": "europe-west3", "key_ring_id": "ring", "key_id": "g-key", "key_version": 2},
    },
    "vault": VAULT,
    "vault_transit": VAULT | {"pubkey": "t-pubkey", "mount_point": None, "namespace": "team"},
    "turnkey": {
        "api_public_key": "d-public",
        "api_private_key": env("TURNKEY_KEY"),
        "organization_id": "d-organization",
        "private_key_id": "d-key-id",
        "public_key": "d-public-key",
    },
    "cdp": {
        "api_key_id": "e-key-id",
        "api_key_secret": plain("e-key-SECRET"),
        "wallet_secret": env("CDP_WALLET"),
        "account_address": "0x0000000000000000000000000000000000000001",
    },
}
VARIABLES = {
    "KEYSTORE_PASSPHRASE": PASSPHRASE,
    "VAULT_ROLE_ID": "role-SECRET",
    "GOOGLE_KEY_ID": "google-id-SECRET",
    "GOOGLE_KEY": "google-key-SECRET",
    "TURNKEY_KEY": "turnkey-SECRET",
    "CDP_WALLET": "wallet-SECRET",
    "WEBHOOK_SIGNING_KEY": "hook-key-SECRET",
}
LOCAL = {"id": "local", "type": "local", "config": SIGNER_CONFIGS["local"]}
HOOK = {
    "id": "hook-1",
    "type": "webhook",
    "url": "https://hooks.example.com/relayers",
    "signing_key": env("WEBHOOK_SIGNING_KEY"),
}


def relayer(**changes: Any) -> dict[str, Any]:
    """A relayer of theirs, with changes; a value of ... leaves a member out."""
    entry = {
        "id": "relayer-1",
        "name": "Relayer 1",
        "network": "sepolia",
        "paused": False,
        "signer_id": "local",
        "network_type": "evm",
        "policies": {"min_balance": 0},
    } | changes
    return {name: value for name, value in entry.items() if value is not ...}


def network(**changes: Any) -> dict[str, Any]:
    entry = {
        "type": "evm",
        "network": "our-chain",
        "chain_id": 424242,
        "required_confirmations": 3,
        "symbol": "OUR",
        "rpc_urls": ["https://rpc.our-chain.example.com"],
        "explorer_urls": ["https://api.our-chain.example.com", "https://our-chain.example.com"],
        "average_blocktime_ms": 2500,
        "is_testnet": True,
        "features": ["eip1559"],
    } | changes
    return {name: value for name, value in entry.items() if value is not ...}


def config(*relayers: Any, **changes: Any) -> dict[str, Any]:
    """A whole file of theirs, with one relayer unless others are named; a value of ... leaves a member out."""
    found = {"relayers": [*relayers] or [relayer()], "notifications": [HOOK], "signers": [LOCAL], "networks": []}
    return {name: value for name, value in (found | {"plugins": []} | changes).items() if value is not ...}


def write(folder: Path, content: Any, **network_files: Any) -> Path:
    """Write a configuration with its keystore and network files; return the folder to import."""
    found = folder / "config"
    for part in ("keys", "networks"):
        (found / part).mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    (found / "config.json").write_bytes(text)
    (found / "keys" / "local.json").write_text(json.dumps(KEYSTORE))
    for name, networks in network_files.items():
        (found / "networks" / f"{name}.json").write_text(json.dumps({"networks": networks}))
    return found


def run(folder: Path, *options: str) -> list[str]:
    """Import a folder to `fleet.json` beside it; return the report."""
    output = io.StringIO()
    call_command("import_openzeppelin", str(folder), "-o", str(folder.parent / "fleet.json"), *options, stdout=output)
    return output.getvalue().splitlines()


def fleet(folder: Path) -> Any:
    return json.loads((folder.parent / "fleet.json").read_text())


def faults(folder: Path, *options: str) -> list[str]:
    """Return the faults for which a configuration is refused; nothing may be written."""
    before = sorted(folder.parent.iterdir())
    with pytest.raises(CommandError) as raised:
        run(folder, *options)
    assert raised.value.returncode == 1
    assert sorted(folder.parent.iterdir()) == before
    assert "SECRET" not in str(raised.value)
    head, *lines = str(raised.value).split("\n  ")
    return lines if lines else [head]
