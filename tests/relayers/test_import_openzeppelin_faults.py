"""`manage.py import_openzeppelin` on malformed files: all faults with their paths, and nothing is written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from relayers.openzeppelin.networks import UNKNOWN
from tests.relayers.openzeppelin_files import (
    HOOK,
    LOCAL,
    VARIABLES,
    config,
    env,
    faults,
    network,
    plain,
    relayer,
    run,
    write,
)

AMOUNT = f"a whole number from 0 to {2**128 - 1} is required"
MISSING = "there is no {} with this id in the file or in the service"


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def local(path: str = "keys/local.json", passphrase: dict[str, str] | None = None) -> dict[str, Any]:
    return LOCAL | {"config": {"path": path, "passphrase": passphrase or plain("x")}}


def aws(**changes: Any) -> dict[str, Any]:
    return {"id": "aws", "type": "aws_kms", "config": {"region": "eu-central-1", "key_id": "k"} | changes}


LONG_LINE = [network(network=f"n{index}", **{"from": f"n{index + 1}"}) for index in range(40)]
NO_ADDRESS = "must be an EVM address: 0x and 40 hexadecimal digits"
URLS: list[Any] = ["https://a.example.com", {"url": "https://b.example.com", "weight": 101}]
# Each entry with its faults.
RELAYERS: list[tuple[Any, list[str]]] = [
    ([], [": an object is required"]),
    (relayer(id=...), [".id: this field is required"]),
    (relayer(id="a\nb"), [".id: control characters are not allowed here"]),
    (relayer(id="a/status"), [".id: an id must not end with /status, which is a path of the API"]),
    (relayer(id=env("ID")), [".id: an id cannot be taken from the environment"]),
    (relayer(), []),
    (relayer(), [".id: duplicate id"]),
    (relayer(id="7", signer_id="x"), [f".signer_id: {MISSING.format('signer')}"]),
    (relayer(id="8", notification_id="x"), [f".notification_id: {MISSING.format('webhook')}"]),
    (relayer(id="9", network_type=[]), [".network_type: a string is required"]),
    (relayer(id="10", policies=[]), [".policies: an object is required"]),
    (relayer(id="11", paused="no"), [".paused: true or false is required"]),
    (relayer(id="12", network=...), [".network: this field is required"]),
    (relayer(id="13", network="moon"), [f".network: {UNKNOWN}"]),
    (relayer(id="14", custom_rpc_urls={}), [".custom_rpc_urls: a list is required"]),
    (
        relayer(id="15", custom_rpc_urls=[7]),
        ['.custom_rpc_urls[0]: a URL or {"url": "...", "weight": 100} is required'],
    ),
    (relayer(id="16", custom_rpc_urls=URLS), [".custom_rpc_urls[1].weight: a whole number from 0 to 100 is required"]),
    (relayer(id="solana-1", network_type="solana", signer_id="x"), []),
    (
        relayer(id="18", policies={"gas_price_cap": -1, "min_balance": 1.5, "whitelist_receivers": ["0x12"]}),
        [
            f".policies.gas_price_cap: {AMOUNT}",
            f".policies.min_balance: {AMOUNT}",
            f".policies.whitelist_receivers[0]: {NO_ADDRESS}",
        ],
    ),
]
SIGNERS: list[tuple[Any, list[str]]] = [
    (LOCAL, []),
    (LOCAL, [".id: duplicate id"]),
    (LOCAL | {"type": 7}, [".type: a string is required"]),
    (aws(region={"type": "file", "value": "x"}), [".config.region.type: must be one of: env, plain"]),
    (aws(region=env("A B")), [".config.region.value: the name of an environment variable is required"]),
    (aws(region=plain("")), [".config.region: an empty string is not allowed here"]),
    ({"type": "aws_kms"}, [".config.key_id: this field is required", ".config.region: this field is required"]),
    (local("keys/none.json"), [".config.path: no such file"]),
    (local(passphrase=plain("wrong SECRET")), [".config.path: the passphrase is wrong, or the keystore is damaged"]),
    (local(passphrase=env("NOT_SET")), [".config.passphrase: the environment variable NOT_SET is not set or empty"]),
    (local("config.json"), [".config.path: this is not a keystore of version 3"]),
    (LOCAL | {"config": {}}, [".config.path: this field is required", ".config.passphrase: this field is required"]),
    (local("x" * 5_000), [".config.path: cannot be read: File name too long"]),
    (local("/dev/zero"), [".config.path: no such file"]),
]
NOTIFICATIONS: list[tuple[Any, list[str]]] = [
    (HOOK | {"url": "ftp://x"}, [".url: an absolute http or https URL is required"]),
    (HOOK | {"id": "hook-2", "type": 7}, [".type: a string is required"]),
    (HOOK | {"id": "hook-3", "url": "mailto:a@example.com"}, [".url: an absolute http or https URL is required"]),
]
NETWORKS: list[tuple[Any, list[str]]] = [
    (network(chain_id="1"), [".chain_id: a whole number from 1 to 9223372036854775807 is required"]),
    (network(network="sepolia", chain_id=1), [".chain_id: must be 11155111, the chain ID of sepolia"]),
    (network(network="slow", average_blocktime_ms=0), [".average_blocktime_ms: must be a number above 0"]),
    (network(), [".network: duplicate network"]),
    (network(network="orphan", **{"from": "x"}), [".from: there is no EVM network with this name"]),
    (network(network="a", **{"from": "b"}), [".from: the network inherits from itself"]),
    (network(network="b", **{"from": "a"}), [".from: the network inherits from itself"]),
    *[(each, [".from: it inherits from over 32 networks"]) for each in LONG_LINE[:9]],
    *[(each, []) for each in [*LONG_LINE[9:], network(network="n40")]],
]


def expected(name: str, entries: list[tuple[Any, list[str]]]) -> list[str]:
    return [f"{name}[{index}]{fault}" for index, (_, found) in enumerate(entries) for fault in found]


def test_all_faults_of_relayers_are_reported(tmp_path: Path) -> None:
    found = faults(write(tmp_path, config(*[entry for entry, _ in RELAYERS])))
    assert sorted(found) == sorted(expected("relayers", RELAYERS))


def test_all_faults_of_signers_and_notifications_are_reported(tmp_path: Path) -> None:
    signers = [
        {**entry, "id": "local" if entry is LOCAL else f"signer-{index}"} for index, (entry, _) in enumerate(SIGNERS)
    ]
    users = [relayer(id=f"relayer-{index}", signer_id=signer["id"]) for index, signer in enumerate(signers)]
    hooks = [entry for entry, _ in NOTIFICATIONS]
    found = faults(write(tmp_path, config(*users, signers=signers, notifications=hooks)))
    assert sorted(found) == sorted(expected("signers", SIGNERS) + expected("notifications", NOTIFICATIONS))


def test_all_faults_of_networks_are_reported(tmp_path: Path) -> None:
    users = [relayer(id=name, network=name) for name in ("our-chain", "sepolia", "slow")]
    content = config(*users, relayer(id="another", network="our-chain"), networks=[entry for entry, _ in NETWORKS])
    assert sorted(faults(write(tmp_path, content))) == sorted(expected("networks", NETWORKS))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"relayers": {}}, "relayers: a list is required"),
        ({"networks": 7}, "networks: a list, or the path of a folder, is required"),
    ],
)
def test_a_section_of_another_shape_is_refused(tmp_path: Path, changes: Any, fault: str) -> None:
    assert faults(write(tmp_path, config(**changes))) == [fault]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "the file is not valid JSON"),
        (b"{", "the file is not valid JSON"),
        (b'{"signers": [], "signers": []}', "duplicate key"),
        (b"[" * 100_000, "the file is nested more than 64 levels deep"),
        (b'"' + b"x" * 5_000_000 + b'"', "the file is over 4194304 bytes"),
        (b"\xff", "the file is not valid UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes, expected: str) -> None:
    folder = write(tmp_path, content)
    assert faults(folder) == [f"Nothing was written. {folder / 'config.json'}: {expected}"]


def test_a_folder_without_a_configuration_is_refused(tmp_path: Path) -> None:
    assert faults(tmp_path / "config") == [f"Nothing was written. {tmp_path / 'config' / 'config.json'}: no such file"]


def test_faults_of_network_files_name_the_file(tmp_path: Path) -> None:
    folder = write(tmp_path, config(networks="networks"), bad=[{"type": "evm"}], good=[network()])
    (folder / "networks" / "worse.json").write_text("{")
    os.mkfifo(folder / "networks" / "pipe.json")
    assert faults(folder) == [
        "bad.json.networks[0].network: this field is required",
        "worse.json: the file is not valid JSON",
    ]


def test_characters_that_control_a_terminal_are_not_printed(tmp_path: Path) -> None:
    folder = write(tmp_path, config(relayer(), relayer(id="\x1b[2J", network_type="solana"), **{"\x1b[2J": 1}))
    assert "\x1b" not in "\n".join(run(folder))


def test_a_keystore_of_a_key_that_cannot_sign_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signers.keystores.decrypt", lambda keystore, passphrase: "0x" + "00" * 32)
    assert faults(write(tmp_path, config())) == [
        "signers[0].config.path: The key must be a secp256k1 private key: 32 bytes in hex."
    ]
