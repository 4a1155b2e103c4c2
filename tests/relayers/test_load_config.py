"""`manage.py load_config`: a file is applied as a whole or not at all, and no secret is printed."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connections, transaction
from django.utils import timezone

from notifications.models import Delivery, Notification
from relayer_service.database.clock import database_now
from relayer_service.fleet.planning import plan
from relayer_service.fleet.sections import ConcurrentChange
from relayer_service.storage.encryption import Sealed
from relayers.models import Relayer, RelayerHealth
from signers.models import Signer
from tests.amounts import amount
from tests.concurrency import wait_until, waits_for_a_lock
from tests.relayers.config_files import (
    NOTIFICATION,
    OTHER_ADDRESS,
    OTHER_KEY,
    SIGNER,
    SPARSE,
    document,
    faults,
    full_relayer,
    load,
    rows,
)
from tests.relayers.factories import ADDRESS, KEY
from tests.relayers.stub_nodes import StubNodes
from tests.servers import PROJECT
from tests.signers.examples import CONFIGS

pytestmark = pytest.mark.django_db


@pytest.fixture
def full(nodes: StubNodes) -> dict[str, Any]:
    return full_relayer(nodes)


def test_a_file_creates_what_it_names(tmp_path: Path, full: dict[str, Any]) -> None:
    before = timezone.now()
    output, errors = load(document(full), tmp_path)
    assert (output, errors) == (
        [
            "signer signer-1: created",
            "webhook hook-1: created",
            "relayer relayer-1: created",
            "3 created, 0 updated, 0 unchanged.",
        ],
        [],
    )
    signer, hook, relayer = Signer.objects.get(), Notification.objects.get(), Relayer.objects.get()
    assert (signer.identifier, signer.type, signer.full_config()) == ("signer-1", "plain", {"key": KEY})
    assert (hook.identifier, hook.url, hook.signing_key) == (
        "hook-1",
        "https://hooks.example.com/relayers",
        "hook-key-SECRET",
    )
    assert {name: getattr(relayer, name) for name in full if name not in {"id", "signer_id", "notification_id"}} == {
        name: value for name, value in full.items() if name not in {"id", "signer_id", "notification_id"}
    }
    assert (relayer.identifier, relayer.signer, relayer.notification) == ("relayer-1", signer, hook)
    assert relayer.masked_rpc_urls == [
        {"url": full["custom_rpc_urls"][0]["url"].split("/777")[0] + "/***", "weight": 70},
        {"url": full["custom_rpc_urls"][1]["url"].split("/777")[0] + "/***", "weight": 0},
    ]
    assert relayer.health.due_at is not None
    assert before <= relayer.health.due_at <= database_now()


def test_a_second_run_a_file_without_entries_and_a_dry_run_change_nothing(
    tmp_path: Path, full: dict[str, Any], nodes: StubNodes
) -> None:
    load(document(full), tmp_path)
    before, asked = rows(), len(nodes.asked)
    assert load(document(full), tmp_path) == (
        [
            "signer signer-1: unchanged",
            "webhook hook-1: unchanged",
            "relayer relayer-1: unchanged",
            "0 created, 0 updated, 3 unchanged.",
        ],
        [],
    )
    assert len(nodes.asked) == asked
    assert load({}, tmp_path) == (["0 created, 0 updated, 0 unchanged."], [])
    signer = {"id": "signer-2", "type": "plain", "config": {"key": OTHER_KEY}}
    again = full | {"name": "Another", "paused": False}
    assert load(document(again, signers=[SIGNER, signer]), tmp_path, "--dry-run") == (
        [
            "signer signer-1: unchanged",
            "signer signer-2: created",
            "webhook hook-1: unchanged",
            "relayer relayer-1: updated (name, paused)",
            "Dry run, nothing was changed: 1 created, 1 updated, 2 unchanged.",
        ],
        [],
    )
    assert rows() == before


def test_a_file_updates_what_is_different_and_names_it(tmp_path: Path, full: dict[str, Any], nodes: StubNodes) -> None:
    load(document(full), tmp_path)
    RelayerHealth.objects.update(
        nonce=5, balance_text="7", balance_is_low=True, due_at=datetime(2040, 1, 1, tzinfo=UTC)
    )
    changed = full | {
        "name": "Another",
        "chain_id": 778,
        "custom_rpc_urls": [{"url": nodes.url(778)}],
        "policies": full["policies"] | {"gas_price_cap": 2**53 + 2},
    }
    del changed["notification_id"]
    hook = NOTIFICATION | {"url": "https://hooks.example.com/other", "signing_key": "another-SECRET"}
    output, _ = load(document(changed, notifications=[hook]), tmp_path)
    assert output == [
        "signer signer-1: unchanged",
        "webhook hook-1: updated (url, signing_key)",
        "relayer relayer-1: updated (name, chain_id, notification_id, custom_rpc_urls, policies.gas_price_cap)",
        "0 created, 2 updated, 1 unchanged.",
    ]
    relayer = Relayer.objects.get()
    assert (relayer.name, relayer.chain_id, relayer.notification) == ("Another", 778, None)
    assert relayer.custom_rpc_urls == [{"url": nodes.url(778), "weight": 100}]
    assert relayer.masked_rpc_urls == [{"url": f"http://127.0.0.1:{nodes.port}/***", "weight": 100}]
    assert relayer.policies == full["policies"] | {"gas_price_cap": 2**53 + 2}
    # The readings of the account on the other chain are cleared, and it is checked at once.
    assert (relayer.health.nonce, relayer.health.balance, relayer.health.balance_is_low) == (None, None, False)
    assert relayer.health.due_at is not None
    assert relayer.health.due_at <= database_now()
    assert (Notification.objects.get().url, Notification.objects.get().signing_key) == (
        "https://hooks.example.com/other",
        "another-SECRET",
    )


def test_what_a_relayer_of_the_file_leaves_out_is_removed_but_not_its_pause(
    tmp_path: Path, full: dict[str, Any]
) -> None:
    load(document(full), tmp_path)
    output, _ = load(document(SPARSE), tmp_path)
    assert output[2] == (
        "relayer relayer-1: updated (network, chain_id, notification_id, custom_rpc_urls, allow_signing, "
        "policies.eip1559_pricing, policies.gas_limit_estimation, policies.gas_price_cap, policies.min_balance, "
        "policies.private_transactions, policies.whitelist_receivers)"
    )
    relayer = Relayer.objects.get()
    assert (relayer.chain_id, relayer.notification, relayer.custom_rpc_urls, relayer.policies) == (
        None,
        None,
        None,
        {},
    )
    assert (relayer.paused, relayer.address) == (True, ADDRESS)


def test_an_unchanged_secret_is_not_sealed_anew(tmp_path: Path, full: dict[str, Any]) -> None:
    vault = {"id": "vault", "type": "provider_c", "config": CONFIGS["provider_c"]}
    load(document(full, signers=[SIGNER, vault]), tmp_path)

    def sealed() -> list[Sealed]:
        return [
            Signer.objects.get(identifier="vault").__dict__["secrets"],
            Notification.objects.get().__dict__["signing_key"],
            Relayer.objects.get().__dict__["custom_rpc_urls"],
        ]

    before = sealed()
    vault = vault | {"config": CONFIGS["provider_c"] | {"key_name": "another"}}
    hook = NOTIFICATION | {"url": "https://hooks.example.com/other"}
    output, _ = load(document(full | {"name": "B"}, signers=[SIGNER, vault], notifications=[hook]), tmp_path)
    assert output[1] == "signer vault: updated (config.key_name)"
    assert sealed() == before
    assert Signer.objects.get(identifier="vault").full_config() == CONFIGS["provider_c"] | {"key_name": "another"}


def test_pausing_and_resuming_emit_events(tmp_path: Path) -> None:
    relayer = SPARSE | {"notification_id": "hook-1"}
    for paused in (True, True, False, False):
        load(document(relayer | {"paused": paused}), tmp_path)
    bodies = [json.loads(bytes(delivery.body)) for delivery in Delivery.objects.order_by("pk")]
    data = {"relayer_id": "relayer-1", "name": "Relayer 1", "network": "sepolia", "network_type": "evm"}
    data |= {"actor": "fleet file config.json", "reason": ""}
    assert [{"type": body["type"], "data": body["data"]} for body in bodies] == [
        {"type": "relayer.paused", "data": data},
        {"type": "relayer.resumed", "data": data},
    ]


def test_a_signing_key_follows_the_rule_of_the_api(tmp_path: Path) -> None:
    load(document(), tmp_path)
    hook = {name: value for name, value in NOTIFICATION.items() if name != "signing_key"}
    cases: list[tuple[dict[str, Any], str | None, str]] = [
        ({}, "hook-key-SECRET", "unchanged"),
        ({"signing_key": None}, "hook-key-SECRET", "unchanged"),
        ({"signing_key": ""}, None, "updated (signing_key)"),
        ({"signing_key": "new"}, "new", "updated (signing_key)"),
    ]
    for fields, kept, change in cases:
        output, _ = load({"notifications": [hook | fields]}, tmp_path)
        assert (output[0], Notification.objects.get().signing_key) == (f"webhook hook-1: {change}", kept)


def test_secrets_that_a_signer_leaves_out_are_kept_for_the_same_server_alone(tmp_path: Path) -> None:
    vault = {"id": "vault", "type": "provider_c", "config": CONFIGS["provider_c"]}
    load({"signers": [vault]}, tmp_path)
    shown = {name: CONFIGS["provider_c"][name] for name in ("address", "key_name", "mount_point", "namespace")}
    for left_out in ({}, {"secret_id": None, "role_id": None}):
        output, _ = load({"signers": [vault | {"config": shown | left_out}]}, tmp_path)
        assert output[0] == "signer vault: unchanged"
        assert Signer.objects.get().full_config() == CONFIGS["provider_c"]
    elsewhere = {"address": "https://elsewhere.example.com", "key_name": "c-key"}
    assert faults({"signers": [vault | {"config": elsewhere}]}, tmp_path) == [
        "signers[0].config.role_id: this field is required",
        "signers[0].config.secret_id: this field is required",
    ]


def test_a_relayer_can_move_to_a_signer_and_a_webhook_that_the_file_creates(tmp_path: Path) -> None:
    load(document(SPARSE), tmp_path)
    signer = {"id": "signer-2", "type": "plain", "config": {"key": OTHER_KEY}}
    hook = NOTIFICATION | {"id": "hook-2"}
    moved = SPARSE | {"signer_id": "signer-2", "notification_id": "hook-2"}
    output, _ = load({"signers": [signer], "notifications": [hook], "relayers": [moved]}, tmp_path)
    assert output[2] == "relayer relayer-1: updated (address, signer_id, notification_id)"
    relayer = Relayer.objects.get()
    assert relayer.notification is not None
    assert (relayer.signer.identifier, relayer.notification.identifier, relayer.address) == (
        "signer-2",
        "hook-2",
        OTHER_ADDRESS,
    )


def test_what_cannot_be_used_or_checked_is_a_warning(tmp_path: Path) -> None:
    signer = {"id": "signer-1", "type": "plain", "config": {"key": "no-key-SECRET"}}
    urls = {"custom_rpc_urls": [{"url": "http://127.0.0.1:1/node-key-SECRET"}]}
    relayers: list[dict[str, Any]] = [SPARSE | urls, SPARSE | {"id": "relayer-2", "address": ADDRESS.lower()}]
    hook = NOTIFICATION | {"signing_key": "whsec_SECRET!"}
    _, errors = load(document(*relayers, signer=signer, notifications=[hook]), tmp_path)
    words = "The signer cannot provide its address: The key must be a secp256k1 private key: 32 bytes in hex."
    unchecked = "the chain ID of this node was not checked: connection failed"
    bad_key = "The signing key starts with whsec_ but is not valid base64 after it."
    assert sorted(errors) == [
        f"Warning: notifications[0].signing_key: {bad_key}",
        f"Warning: relayers[0].address: {words}",
        f"Warning: relayers[0].custom_rpc_urls[0].url: {unchecked}",
        f"Warning: relayers[1].address: {words}",
    ]
    assert [relayer.address for relayer in Relayer.objects.order_by("sequence")] == ["", ADDRESS]


def test_what_others_changed_or_created_concurrently_is_not_overwritten(tmp_path: Path) -> None:
    planned = plan(document(SPARSE))
    hook = Notification.objects.create(identifier="hook-1", url="https://theirs.example.com")
    with pytest.raises(ConcurrentChange):
        planned.apply()
    assert (Signer.objects.count(), Notification.objects.count(), Relayer.objects.count()) == (0, 1, 0)
    hook.delete()
    load(document(SPARSE), tmp_path)
    planned = plan(
        document(SPARSE | {"name": "Mine"}, notifications=[NOTIFICATION | {"url": "https://a.example.com"}])
    )
    Relayer.objects.update(name="Theirs")
    with pytest.raises(ConcurrentChange):
        planned.apply()
    assert (Relayer.objects.get().name, Notification.objects.get().url) == ("Theirs", NOTIFICATION["url"])


def test_many_relayers_are_loaded_and_found_unchanged(tmp_path: Path) -> None:
    count = amount(100, 1_200)
    relayers = [SPARSE | {"id": f"relayer-{number}"} for number in range(count)]
    assert load(document(*relayers), tmp_path)[0][-1] == f"{count + 2} created, 0 updated, 0 unchanged."
    assert load(document(*relayers), tmp_path)[0][-1] == f"0 created, 0 updated, {count + 2} unchanged."
    renamed = [relayer | {"name": "Another"} for relayer in relayers]
    assert load(document(*renamed), tmp_path)[0][-1] == f"0 created, {count} updated, 2 unchanged."
    assert list(Relayer.objects.values_list("identifier", flat=True)) == [relayer["id"] for relayer in relayers]


def test_the_example_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: StubNodes) -> None:
    for name, value in {
        "TREASURY_KEY": KEY,
        "TREASURY_ADDRESS": ADDRESS,
        "OPS_SIGNING_KEY": "whsec_c2VjcmV0",
        "MAINNET_RPC_URL": nodes.url(1),
        "MAINNET_BACKUP_RPC_URL": nodes.url(1, "backup"),
    }.items():
        monkeypatch.setenv(name, value)
    content = (PROJECT / "examples/config.json").read_bytes()
    output, errors = load(content, tmp_path)
    assert errors == []
    assert output == [
        "signer treasury: created",
        "webhook ops: created",
        "relayer mainnet-1: created",
        "relayer sepolia-1: created",
        "fee token USDC on mainnet: created",
        "fee token LINK on mainnet: created",
        "fee token USDC on sepolia: created",
        "7 created, 0 updated, 0 unchanged.",
    ]
    assert [relayer.address for relayer in Relayer.objects.all()] == [ADDRESS, ADDRESS]


def test_the_example_for_a_node_of_ones_own_loads(tmp_path: Path) -> None:
    output, errors = load((PROJECT / "examples/local.json").read_bytes(), tmp_path)
    assert errors == []
    assert output == ["signer local-1: created", "relayer local-1: created", "2 created, 0 updated, 0 unchanged."]
    relayer = Relayer.objects.get()
    # Not that of the demo, with which only one relayer can send.
    third = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
    assert (relayer.address, relayer.chain_id, relayer.notification, relayer.paused) == (third, None, None, False)
    assert (relayer.custom_rpc_urls, relayer.masked_rpc_urls, relayer.policies) == (None, [], {})


@pytest.mark.django_db(transaction=True)
def test_relayers_are_locked_before_their_notifications(tmp_path: Path) -> None:
    relayer, url = SPARSE | {"notification_id": "hook-1"}, "https://other.example.com"
    load(document(relayer), tmp_path)

    def work() -> None:
        load(document(relayer | {"name": "Other"}, notifications=[NOTIFICATION | {"url": url}]), tmp_path)
        connections.close_all()

    writer = threading.Thread(target=work)
    with transaction.atomic():
        list(Relayer.objects.select_for_update(no_key=True))
        writer.start()
        wait_until(waits_for_a_lock)
        # As an update of the relayer's notification does; the file must not hold this lock yet.
        list(Notification.objects.select_for_update(no_key=True))
    writer.join()
    assert (Relayer.objects.get().name, Notification.objects.get().url) == ("Other", url)
