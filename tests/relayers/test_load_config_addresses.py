"""Fleet files that replace the key of a signer, whose relayers follow to the new address."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management.base import CommandError

from relayer_service.models import AuditEntry
from relayers.models import Relayer
from tests.relayers import factories
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY, SIGNER, SPARSE, faults, load, rows
from tests.relayers.factories import ADDRESS
from tests.relayers.replaced_keys import replace_meanwhile
from tests.servers import free_port

pytestmark = pytest.mark.django_db


def test_a_fleet_file_moves_relayers_only_with_a_flag(tmp_path: Path) -> None:
    entries = [SPARSE, SPARSE | {"id": "relayer-2"}]
    load({"signers": [SIGNER], "relayers": entries}, tmp_path)
    replaced = {"signers": [SIGNER | {"config": {"key": OTHER_KEY}}], "relayers": entries[:1]}
    before = rows()
    asked = [
        f"signers[0]: relayers that are not in the file move to the address {OTHER_ADDRESS}: relayer-2",
        f"relayers[0].address: changes from {ADDRESS} to {OTHER_ADDRESS}",
    ]
    with pytest.raises(CommandError) as refused:
        load(replaced, tmp_path)
    assert str(refused.value).split("\n  ") == [
        "Nothing was changed. Add --confirm-address-changes to change addresses:",
        *asked,
    ]
    _, warnings = load(replaced, tmp_path, "--dry-run")
    assert warnings == [f"Needs --confirm-address-changes: {text}" for text in asked]
    assert rows() == before

    output, warnings = load(replaced, tmp_path, "--confirm-address-changes")
    assert output[:2] == ["signer signer-1: updated (config.key)", "relayer relayer-1: updated (address)"]
    assert warnings == []
    assert [relayer.address for relayer in Relayer.objects.all()] == [OTHER_ADDRESS, OTHER_ADDRESS]
    moved = AuditEntry.objects.filter(object_type="relayer", action="changed")
    assert {entry.object_id: entry.changes for entry in moved} == {
        name: {"address": [ADDRESS, OTHER_ADDRESS]} for name in ("relayer-1", "relayer-2")
    }
    assert load(replaced, tmp_path)[0][-1] == "0 created, 0 updated, 2 unchanged."


def test_a_fleet_file_names_the_relayers_of_a_key_whose_address_cannot_be_read(tmp_path: Path) -> None:
    entries = [SPARSE | {"address": ADDRESS}, SPARSE | {"id": "relayer-2", "address": ADDRESS}]
    load({"signers": [SIGNER], "relayers": entries}, tmp_path)
    unreadable = [SIGNER | {"config": {"key": "no-key-SECRET"}}]
    warning = "The signer cannot provide its address: The key must be a secp256k1 private key: 32 bytes in hex."
    assert faults({"signers": unreadable, "relayers": entries[:1]}, tmp_path) == [
        f"signers[0]: {warning} It is required by relayers that are not in the file: relayer-2"
    ]
    load({"signers": unreadable, "relayers": entries}, tmp_path)
    assert {relayer.address for relayer in Relayer.objects.all()} == {ADDRESS}


def test_a_fleet_file_that_was_planned_for_another_key_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = factories.signer()
    replace_meanwhile(signer, monkeypatch)
    with pytest.raises(CommandError, match="the fleet was changed concurrently"):
        load({"relayers": [SPARSE]}, tmp_path)
    assert not Relayer.objects.exists()


def test_one_file_creates_a_signer_and_its_relayer_in_any_order_of_fields(tmp_path: Path) -> None:
    config = {"key_name": "main", "role_id": "r", "secret_id": "s", "address": f"http://127.0.0.1:{free_port()}"}
    vault = {"id": "signer-1", "type": "provider_c", "config": config}
    load({"signers": [vault], "relayers": [SPARSE | {"address": ADDRESS}]}, tmp_path)
    assert Relayer.objects.get().address == ADDRESS
