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


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (config([]), ["relayers[0]: an object is required"]),
        (config(relayers={}), ["relayers: a list is required"]),
        (config(networks=7), ["networks: a list, or the path of a folder, is required"]),
        (config(relayer(id=...)), ["relayers[0].id: this field is required"]),
        (config(relayer(id="a\nb")), ["relayers[0].id: control characters are not allowed here"]),
        (
            config(relayer(id="a/status")),
            ["relayers[0].id: an id must not end with /status, which is a path of the API"],
        ),
        (config(relayer(id=env("ID"))), ["relayers[0].id: an id cannot be taken from the environment"]),
        (config(relayer(), relayer()), ["relayers[1].id: duplicate id"]),
        (config(relayer(signer_id="x")), [f"relayers[0].signer_id: {MISSING.format('signer')}"]),
        (config(relayer(notification_id="x")), [f"relayers[0].notification_id: {MISSING.format('webhook')}"]),
        (config(relayer(network_type=[])), ["relayers[0].network_type: a string is required"]),
        (config(relayer(policies=[])), ["relayers[0].policies: an object is required"]),
        (config(relayer(paused="no")), ["relayers[0].paused: true or false is required"]),
        (config(relayer(network=...)), ["relayers[0].network: this field is required"]),
        (config(relayer(network="moon")), [f"relayers[0].network: {UNKNOWN}"]),
        (config(relayer(custom_rpc_urls={})), ["relayers[0].custom_rpc_urls: a list is required"]),
        (
            config(relayer(custom_rpc_urls=[7, {"url": "https://rpc.example.com", "weight": 101}])),
            ['relayers[0].custom_rpc_urls[0]: a URL or {"url": "...", "weight": 100} is required'],
        ),
        (
            config(
                relayer(custom_rpc_urls=["https://a.example.com", {"url": "https://b.example.com", "weight": 101}])
            ),
            ["relayers[0].custom_rpc_urls[1].weight: a whole number from 0 to 100 is required"],
        ),
        (
            config(
                relayer(id="solana-1", network_type="solana", signer_id="x"),
                relayer(policies={"gas_price_cap": -1, "min_balance": 1.5, "whitelist_receivers": ["0x12"]}),
            ),
            [
                f"relayers[1].policies.gas_price_cap: {AMOUNT}",
                f"relayers[1].policies.min_balance: {AMOUNT}",
                "relayers[1].policies.whitelist_receivers[0]: must be an EVM address: 0x and 40 hexadecimal digits",
            ],
        ),
        (config(signers=[LOCAL, LOCAL]), ["signers[1].id: duplicate id"]),
        (config(signers=[LOCAL | {"type": 7}]), ["signers[0].type: a string is required"]),
        (
            config(signers=[LOCAL, aws(region={"type": "file", "value": "x"})]),
            ["signers[1].config.region.type: must be one of: env, plain"],
        ),
        (
            config(signers=[LOCAL, aws(region=env("A B"))]),
            ["signers[1].config.region.value: the name of an environment variable is required"],
        ),
        (
            config(signers=[LOCAL, aws(region=plain(""))]),
            ["signers[1].config.region: an empty string is not allowed here"],
        ),
        (
            config(signers=[LOCAL, {"id": "a", "type": "aws_kms"}]),
            ["signers[1].config.key_id: this field is required", "signers[1].config.region: this field is required"],
        ),
        (
            config(signers=[local("keys/none.json")]),
            ["signers[0].config.path: no such file"],
        ),
        (
            config(signers=[local(passphrase=plain("wrong SECRET"))]),
            ["signers[0].config.path: the passphrase is wrong, or the keystore is damaged"],
        ),
        (
            config(signers=[local(passphrase=env("NOT_SET"))]),
            ["signers[0].config.passphrase: the environment variable NOT_SET is not set or empty"],
        ),
        (
            config(signers=[local("config.json")]),
            ["signers[0].config.path: this is not a keystore of version 3"],
        ),
        (
            config(signers=[LOCAL | {"config": {}}]),
            ["signers[0].config.path: this field is required", "signers[0].config.passphrase: this field is required"],
        ),
        (
            config(signers=[local("x" * 5_000)]),
            ["signers[0].config.path: cannot be read: File name too long"],
        ),
        (
            config(signers=[local("/dev/zero")]),
            ["signers[0].config.path: no such file"],
        ),
        (
            config(notifications=[HOOK | {"url": "ftp://x"}]),
            ["notifications[0].url: an absolute http or https URL is required"],
        ),
        (config(notifications=[HOOK | {"type": 7}]), ["notifications[0].type: a string is required"]),
        (
            config(notifications=[HOOK | {"url": "mailto:ops@example.com"}]),
            ["notifications[0].url: an absolute http or https URL is required"],
        ),
        (
            config(
                relayer(network="our-chain"), relayer(id="b", network="our-chain"), networks=[network(chain_id="1")]
            ),
            ["networks[0].chain_id: a whole number from 1 to 9223372036854775807 is required"],
        ),
        (
            config(networks=[network(network="sepolia", chain_id=1)]),
            ["networks[0].chain_id: must be 11155111, the chain ID of sepolia"],
        ),
        (
            config(relayer(network="our-chain"), networks=[network(average_blocktime_ms=0)]),
            ["networks[0].average_blocktime_ms: must be a number above 0"],
        ),
        (config(networks=[network(), network()]), ["networks[1].network: duplicate network"]),
        (config(networks=[network(**{"from": "x"})]), ["networks[0].from: there is no EVM network with this name"]),
        (
            config(networks=[network(network="a", **{"from": "b"}), network(network="b", **{"from": "a"})]),
            [
                "networks[0].from: the network inherits from itself",
                "networks[1].from: the network inherits from itself",
            ],
        ),
        (
            config(networks=[*LONG_LINE, network(network="n40")]),
            [f"networks[{index}].from: it inherits from over 32 networks" for index in range(9)],
        ),
    ],
)
def test_a_malformed_configuration_is_refused_with_all_faults(
    tmp_path: Path, content: Any, expected: list[str]
) -> None:
    assert faults(write(tmp_path, content)) == expected


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
