"""`manage.py import_openzeppelin`: a configuration becomes a fleet file that loads, and nothing is lost unreported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chain import networks
from notifications.models import Notification
from relayers.models import Relayer
from signers.models import Signer
from signers.type_aliases import TYPES
from tests.relayers.config_files import OTHER_ADDRESS, load
from tests.relayers.factories import ADDRESS, KEY
from tests.relayers.openzeppelin_files import (
    HOOK,
    LOCAL,
    SIGNER_CONFIGS,
    VARIABLES,
    config,
    env,
    faults,
    fleet,
    network,
    plain,
    relayer,
    run,
    write,
)
from tests.relayers.stub_nodes import stub_nodes

SIGNERS = [{"id": name, "type": name, "config": each} for name, each in SIGNER_CONFIGS.items()]
UNKNOWN = "unknown network: it is neither in their files, which --networks names, nor one of the service"


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


@pytest.mark.django_db
def test_everything_that_is_imported_can_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policies = {
        "eip1559_pricing": True,
        "gas_limit_estimation": False,
        "gas_price_cap": 2**53 + 1,
        "min_balance": str(2**128 - 1),
        "private_transactions": False,
        "whitelist_receivers": [OTHER_ADDRESS],
    }
    hooks = [HOOK, HOOK | {"id": "hook-2", "signing_key": plain("$${plain SECRET")}]
    with stub_nodes() as nodes:
        monkeypatch.setenv("RPC_URL", nodes.url(1))
        urls = [
            nodes.url(11155111),
            {"url": nodes.url(11155111, "b"), "weight": 0},
            {"url": env("S_URL"), "weight": 7},
        ]
        monkeypatch.setenv("S_URL", nodes.url(11155111, "c"))
        parent = network(network="parent", rpc_urls=[{"url": nodes.url(777), "weight": 30}], tags=["a"])
        entries = [
            relayer(id="full", paused=True, notification_id="hook-1", policies=policies, custom_rpc_urls=urls),
            relayer(
                id="alias", network="zk-sync", policies=..., notification_id=None, custom_rpc_urls=[nodes.url(324)]
            ),
            relayer(id="custom", network="child"),
            relayer(id="by-chain-id", network="mainnet-private", notification_id="hook-2"),
        ]
        folder = write(
            tmp_path,
            config(*entries, signers=SIGNERS, notifications=hooks, networks="./config/networks"),
            own=[network(network="child", chain_id=777, rpc_urls=..., **{"from": "parent"}), parent],
            private=[network(network="mainnet-private", chain_id=1, rpc_urls=[env("RPC_URL")])],
        )
        report = "\n".join(run(folder))
        assert ("SECRET" in report, KEY[2:] in report) == (False, False)
        assert load((tmp_path / "fleet.json").read_bytes(), tmp_path)[0][-1] == "13 created, 0 updated, 0 unchanged."
        assert load((tmp_path / "fleet.json").read_bytes(), tmp_path)[0][-1] == "0 created, 0 updated, 13 unchanged."
        sent = {
            "full": [(nodes.url(11155111), 100), (nodes.url(11155111, "b"), 0), (nodes.url(11155111, "c"), 7)],
            "alias": [(nodes.url(324), 100)],
            "custom": [(nodes.url(777), 30)],
            "by-chain-id": [(nodes.url(1), 100)],
        }
    rows = {row.identifier: row for row in Relayer.objects.select_related("signer", "notification")}
    assert {name: row.node_urls() for name, row in rows.items()} == sent
    assert {(row.name, row.signer.identifier, row.address) for row in rows.values()} == {
        ("Relayer 1", "local", ADDRESS)
    }
    assert {
        name: (row.network, row.chain_id, row.paused, row.notification and row.notification.identifier)
        for name, row in rows.items()
    } == {
        "full": ("sepolia", None, True, "hook-1"),
        "alias": ("zksync-era", None, False, None),
        "custom": ("child", 777, False, None),
        "by-chain-id": ("mainnet", None, False, "hook-2"),
    }
    assert rows["full"].policies == policies | {"min_balance": 2**128 - 1}
    assert (rows["alias"].policies, rows["custom"].policies) == ({}, {"min_balance": 0})
    assert dict(Notification.objects.values_list("identifier", "url")) == dict.fromkeys(
        ["hook-1", "hook-2"], HOOK["url"]
    )
    assert {row.identifier: row.signing_key for row in Notification.objects.all()} == {
        "hook-1": "hook-key-SECRET",
        "hook-2": "$${plain SECRET",
    }
    assert {row.identifier: row.type for row in Signer.objects.all()} == {
        alias: signer_type.value for alias, signer_type in TYPES.items()
    }
    configs = {row.identifier: row.full_config() for row in Signer.objects.all()}
    vault = {"address": "https://vault.example.com", "key_name": "relayer-1", "role_id": "role-SECRET"}
    vault["secret_id"] = "vault-${SECRET"
    assert configs == {
        "local": {"key": KEY},
        "aws_kms": SIGNER_CONFIGS["aws_kms"],
        "google_cloud_kms": {
            "key": SIGNER_CONFIGS["google_cloud_kms"]["key"],
            "service_account": {
                "project_id": "example",
                "private_key_id": "google-id-SECRET",
                "private_key": "google-key-SECRET",
                "client_email": "relayer@example.com",
                "client_id": "1",
            },
        },
        "vault": vault | {"mount_point": "kv"},
        "vault_transit": vault | {"pubkey": "t-pubkey", "namespace": "team"},
        "turnkey": SIGNER_CONFIGS["turnkey"] | {"api_private_key": "turnkey-SECRET"},
        "cdp": SIGNER_CONFIGS["cdp"] | {"api_key_secret": "e-key-SECRET", "wallet_secret": "wallet-SECRET"},
    }


def test_the_report_names_what_is_imported_and_what_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEBHOOK_SIGNING_KEY")
    entries = [
        relayer(custom_rpc_urls=[{"url": "https://rpc.example.com", "weight": 1, "region": "eu"}], color="red"),
        relayer(id="solana-1", network="devnet", network_type="solana", signer_id="ed25519"),
        relayer(id="azure-1", signer_id="azure"),
        relayer(id="transit-1", signer_id="vault_transit"),
        relayer(id="holesky-1", network="holesky"),
        relayer(id="own", network="our-chain", notification_id="no-url", policies={"include_revert_data": True}),
    ]
    signers = [
        LOCAL,
        {"id": "ed25519", "type": "vault_transit", "config": {}},
        {"id": "azure", "type": "azure_key_vault", "config": {"vault_url": "https://azure.example.com"}},
        {"id": "vault_transit", "type": "vault_transit", "config": SIGNER_CONFIGS["vault_transit"]},
        {"id": "aws", "type": "aws_kms", "config": {**SIGNER_CONFIGS["aws_kms"], "profile": "p"}, "owner": "ops"},
    ]
    folder = write(
        tmp_path,
        config(
            *entries,
            signers=signers,
            notifications=[
                HOOK,
                {"id": "no-url", "type": "webhook", "url": ""},
                HOOK | {"id": "mail", "type": "email"},
            ],
            networks=[
                network(tags=["rollup"], features=["eip1559", "blobs"], gas_price_cache={"enabled": True}),
                network(network="sepolia", chain_id=11155111),
                network(network="unused", chain_id=5),
                {"type": "solana", "network": "devnet"},
            ],
            plugins=[{"id": "plugin-1", "path": "plugin.ts"}],
            metrics=True,
        ),
    )
    transit = (
        "HashiCorp Vault Transit (provider_c_transit) is an Ed25519 signer: it signs messages only and cannot be used "
        "by an evm relayer."
    )
    azure = "signers of the type azure_key_vault have no counterpart"
    report = [
        "signers: 3",
        f"  local: local is plain, {ADDRESS}",
        "  vault_transit: vault_transit is provider_c_transit",
        "  aws: aws_kms is provider_a_kms",
        "notifications: 1",
        "  hook-1",
        "relayers: 2",
        "  relayer-1: sepolia, signer local",
        "  own: our-chain, signer local",
        "Custom networks: our-chain. Their relayers have the chain ID and RPC URLs.",
        "  --networks-output writes a NETWORKS_FILE with coin, block time and confirmations.",
        "Not imported:",
        "  signers[1] (ed25519): only relayers that are not EVM use it",
        f"  signers[2] (azure): {azure}",
        "  signers[4].owner: no counterpart",
        "  signers[4].config.profile: no counterpart",
        "  notifications[1] (no-url): it has no URL",
        "  notifications[2] (mail): notifications of the type email have no counterpart",
        "  relayers[0].custom_rpc_urls[0].region: no counterpart",
        "  networks[1].required_confirmations: the service has 6; NETWORKS_FILE can change it",
        "  relayers[0].color: no counterpart",
        "  relayers[1] (solana-1): solana relayers have no counterpart",
        f"  relayers[2] (azure-1): its signer azure cannot be used: {azure}",
        f"  relayers[3] (transit-1): its signer vault_transit cannot be used: {transit}",
        "  relayers[4] (holesky-1): holesky was shut down in 2025: use hoodi, or sepolia",
        "  networks[0].features: no counterpart: blobs",
        "  networks[0].tags: no counterpart",
        "  networks[0].gas_price_cache: no counterpart",
        "  relayers[5].notification_id: the notification is not imported: it has no URL",
        "  relayers[5].policies.include_revert_data: no counterpart",
        "  plugins[0]: plugins have no counterpart: programs call the API instead",
        "  networks: no imported relayer uses unused",
        "  networks: not EVM: devnet",
        "  metrics: no counterpart",
        "Environment variables that load_config needs: VAULT_ROLE_ID, WEBHOOK_SIGNING_KEY (not set)",
    ]
    assert run(folder, "--dry-run") == [*report, "Dry run, nothing was written."]
    assert [path.name for path in tmp_path.iterdir()] == ["config"]
    file = tmp_path / "fleet.json"
    assert run(folder) == [
        *report,
        f"Wrote {file}, which contains secrets: delete it after it is loaded.",
        f"Next: python manage.py load_config {file} --dry-run",
    ]
    assert [entry["id"] for entry in fleet(folder)["relayers"]] == ["relayer-1", "own"]


def test_the_file_is_for_its_owner_only_and_replaces_no_other(tmp_path: Path) -> None:
    local = LOCAL | {"config": {"path": "keys/local.json", "passphrase": plain(VARIABLES["KEYSTORE_PASSPHRASE"])}}
    folder, missing = write(tmp_path, config(signers=[local])), tmp_path / "missing" / "networks.json"
    # Both files are written, or none.
    assert faults(folder, "--networks-output", str(missing)) == [
        f"Nothing was written. Cannot write {missing}: No such file or directory"
    ]
    run(folder)
    assert fleet(folder)["signers"] == [{"id": "local", "type": "plain", "config": {"key": KEY}}]
    file = tmp_path / "fleet.json"
    assert file.stat().st_mode & 0o777 == 0o600
    content = file.read_bytes()
    assert faults(folder) == [f"Nothing was written: {file} exists. Remove it, or choose another name."]
    assert file.read_bytes() == content
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    assert faults(folder) == [f"Nothing was written: {file} exists. Remove it, or choose another name."]


def test_only_their_references_are_references(tmp_path: Path) -> None:
    """A text that looks like a reference of a fleet file is not read from the environment."""
    entry = relayer(
        id="${A}", name="${A}", network="${A}", signer_id="${A}", custom_rpc_urls=["https://a.example/${A}"]
    )
    folder = write(tmp_path, config(entry, signers=[LOCAL | {"id": "${A}"}], networks=[network(network="${A}")]))
    run(folder)
    (found,) = fleet(folder)["relayers"]
    assert {found[name] for name in ("id", "name", "network", "signer_id")} == {"$${A}"}
    assert (found["custom_rpc_urls"], fleet(folder)["signers"][0]["id"]) == (
        [{"url": "https://a.example/$${A}"}],
        "$${A}",
    )


def test_all_relayers_can_be_imported_as_paused(tmp_path: Path) -> None:
    folder = write(tmp_path, config(relayer(), relayer(id="relayer-2", paused=...)))
    run(folder, "--paused")
    assert [entry["paused"] for entry in fleet(folder)["relayers"]] == [True, True]


def test_network_files_are_found_as_their_service_finds_them(tmp_path: Path) -> None:
    paths = ["./config/networks", "networks", "/app/config/networks", "/app/networks", "", ...]
    for number, path in enumerate(paths):
        folder = tmp_path / str(number)
        found = write(folder, config(relayer(network="our-chain"), networks=path), own=[network()])
        run(found)
        assert fleet(found)["relayers"][0]["chain_id"] == 424242, path


def test_network_files_are_read_from_a_named_folder(tmp_path: Path) -> None:
    folder = write(tmp_path, config(relayer(network="our-chain"), networks="./nowhere"), own=[network()])
    assert faults(folder) == [
        "networks: there is no such folder: name it with --networks",
        f"relayers[0].network: {UNKNOWN}",
    ]
    run(folder, "--networks", str(folder / "networks"))
    assert fleet(folder)["relayers"][0]["chain_id"] == 424242


def test_custom_networks_are_written_as_a_networks_file(tmp_path: Path) -> None:
    parent = network(network="parent", features=["a"], tags=["a", "b"], is_testnet=...)
    parent["explorer_urls"] = ["https://pages.example.com", "https://pages.example.com/api"]
    child = {"type": "evm", "network": "child", "from": "parent", "chain_id": 77, "tags": ["b", "c"], "symbol": None}
    folder = write(tmp_path, config(relayer(network="child"), networks=[child, parent]))
    file = tmp_path / "networks.json"
    run(folder, "--networks-output", str(file))
    assert json.loads(file.read_text()) == {
        "networks": {
            "child": {
                "chain_id": 77,
                "symbol": "OUR",
                "decimals": 18,
                "block_seconds": 2.5,
                "rpc_urls": ["https://rpc.our-chain.example.com"],
                "confirmations": 3,
                "explorer": "https://pages.example.com",
                "base_fee_rule": "none",
            }
        }
    }
    assert networks.read(file)["child"].chain_id == 77
    assert file.stat().st_mode & 0o777 == 0o600


def test_known_networks_have_custom_nodes_where_these_are_others(tmp_path: Path) -> None:
    urls = [*networks.networks()["sepolia"].rpc_urls]
    closed = relayer(id="closed", network="holesky", custom_rpc_urls=["https://holesky.example.com"])
    own = [network(network="sepolia", chain_id=11155111, rpc_urls=urls), network(network="holesky", chain_id=17000)]
    folder = write(tmp_path, config(relayer(), closed, networks=own))
    run(folder)
    known, found = fleet(folder)["relayers"]
    assert "custom_rpc_urls" not in known
    assert (found["chain_id"], found["custom_rpc_urls"]) == (17000, [{"url": "https://holesky.example.com"}])
