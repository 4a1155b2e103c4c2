"""A user name or a password in a Vault address: refused whichever way it comes, and never shown if it is there."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils.text import capfirst

from relayer_service.audit.recording import changed, record, snapshot
from relayer_service.models import AuditEntry
from signers.models import Signer
from tests.api import Api
from tests.relayers import config_files
from tests.signers.examples import CONFIGS

REFUSAL = "a user name or a password is not allowed in this URL"
WITH_PASSWORD = "https://user:pass-SECRET@vault.example.com:8200/v"
SHOWN = "https://vault.example.com:8200/v"
ADDRESSES = [
    WITH_PASSWORD,
    "https://user@vault.example.com",
    "https://@vault.example.com",
    # No URLs, and still shown.
    "user:pass-SECRET@vault.example.com",
    "https:/\\user:pass-SECRET@vault.example.com",
    "https://user:pass/SECRET@vault.example.com",
    " https://user:pass-SECRET@vault.example.com",
    "https://user:pass-SECRET%40vault.example.com",
    "https://user:pass-SECRET\uff20vault.example.com",
]


def config(kind: str, address: str) -> dict[str, Any]:
    return CONFIGS[kind] | {"address": address}


@pytest.mark.parametrize("kind", ["provider_c", "provider_c_transit"])
def test_the_api_refuses_it_and_does_not_repeat_it(api: Api, kind: str) -> None:
    for address in ADDRESSES:
        answer = api.post("/api/v1/signers", {"type": kind, "config": config(kind, address)})
        assert answer.status == 400
        assert answer.body["metadata"]["logs"] == [{"level": "log", "message": f"config.address: {REFUSAL}"}]
    assert not Signer.objects.exists()


def test_an_at_sign_elsewhere_is_accepted(api: Api) -> None:
    for address in ("https://vault.example.com/@team", "vault", "https://vault.example.com?a=b@c"):
        answer = api.post("/api/v1/signers", {"type": "provider_c", "config": config("provider_c", address)})
        assert (answer.status, answer.body["data"]["config"]["address"]) == (201, address)


@pytest.mark.django_db
def test_a_fleet_file_refuses_it(tmp_path: Path) -> None:
    signer = {"id": "vault", "type": "provider_c", "config": config("provider_c", WITH_PASSWORD)}
    assert config_files.faults({"signers": [signer]}, tmp_path) == [f"signers[0].config.address: {REFUSAL}"]


def test_the_admin_refuses_it(admin_client: Client) -> None:
    fields = {f"provider_c__{name}": value for name, value in config("provider_c", WITH_PASSWORD).items()}
    sent = {"identifier": "vault", "type": "provider_c"} | fields
    page = admin_client.post("/admin/signers/signer/add/", sent)
    assert page.context["adminform"].form.errors == {"provider_c__address": [f"{capfirst(REFUSAL)}."]}


@pytest.fixture
def old(db: None) -> Signer:
    """A signer of an earlier release, which accepted it."""
    signer = Signer(identifier="vault", type="provider_c")
    signer.set_config(config("provider_c", WITH_PASSWORD))
    signer.save()
    return signer


def test_one_of_an_earlier_release_works_and_is_nowhere_shown(old: Signer, api: Api, admin_client: Client) -> None:
    assert old.full_config()["address"] == WITH_PASSWORD
    before = snapshot(old)
    old.config = old.config | {"address": WITH_PASSWORD.replace("SECRET", "OTHER-SECRET")}
    record([changed(old, before)])
    (entry,) = AuditEntry.objects.filter(action="changed")
    assert entry.changes == {"config.address": f"{SHOWN} → {SHOWN}, the masked part changed"}
    dumped = io.StringIO()
    call_command("dump_config", stdout=dumped, stderr=io.StringIO())
    assert '"address": "${SIGNER_VAULT_ADDRESS}"' in dumped.getvalue()
    listed = api.get("/api/v1/signers")
    assert listed.body["data"][0]["config"]["address"] == SHOWN
    page = admin_client.get(f"/admin/signers/signer/{old.pk}/change/").content.decode()
    assert "https://vault.example.com:8200/v" in page
    assert "pass-SECRET" not in listed.text.decode() + dumped.getvalue() + page
    for at_sign in ("%40", "\uff20"):
        Signer.objects.update(config=old.config | {"address": f"https://user:pass-SECRET{at_sign}vault"})
        assert api.get("/api/v1/signers").body["data"][0]["config"]["address"] == "vault"
