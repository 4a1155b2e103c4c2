"""A relayer whose account or signer changes loses its automatic top-up, however that happens.

Whoever changes it may hold the new key: the coins of the funding relayer would go to that account.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from notifications.models import Delivery
from relayer_service.management.commands.load_config import CONFIRM
from relayer_service.models import AuditEntry
from relayers import writes
from relayers.models import Relayer
from relayers.pausing import ACCOUNT_CHANGED
from relayers.writes import TOP_UP_REMOVED
from signers import signing
from signers.models import Signer
from tests.api import Api
from tests.contract import bodies
from tests.notifications.admin_pages import told
from tests.relayers import admin_pages, factories
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY, SIGNER, SPARSE, load
from tests.relayers.factories import ADDRESS
from tests.relayers.stub_nodes import stub_nodes
from tokens.writes import issue

pytestmark = pytest.mark.django_db

PATH = "/api/v1/relayers/poor"
TOP_UP = {"funding_relayer_id": "rich", "minimum": "1", "target": "3", "daily_limit": "7"}
COLUMNS = {"top_up_minimum_text": "1", "top_up_target_text": "3", "top_up_daily_limit_text": "7"}
AUDITED = {f"top_up.{name}": [value, None] for name, value in TOP_UP.items()}
MOVED = {"address": [ADDRESS, OTHER_ADDRESS]}
RE_POINTED = {**MOVED, "signer_id": ["signer-1", "signer-2"]}
SEPOLIA = 11155111
DATA = {"relayer_id": "poor", "name": "Poor", "network": "sepolia", "network_type": "evm"}


@pytest.fixture(autouse=True)
def extensions(settings: Any) -> None:
    settings.EXTENSIONS = ["lifecycle", "transactions"]


@pytest.fixture
def rich() -> Relayer:
    return factories.relayer(identifier="rich", name="Rich", signer=factories.signer("treasury"))


@pytest.fixture
def poor(rich: Relayer) -> Relayer:
    factories.signer("signer-2", key=OTHER_KEY)
    hook = factories.notification()
    return factories.relayer(identifier="poor", name="Poor", notification=hook, funding_relayer=rich, **COLUMNS)


def client(user: User, *scopes: str) -> Api:
    return Api(issue(name="terraform", user=user, scopes=list(scopes))[1])


def stored() -> dict[str, str]:
    return Relayer.objects.get(identifier="poor").top_up_values()


def changes() -> dict[str, Any]:
    """What the newest audit entry of the relayer says."""
    found: dict[str, Any] = AuditEntry.objects.for_row(Relayer.objects.get(identifier="poor"))[0].changes
    return found


def events() -> list[dict[str, Any]]:
    rows = Delivery.objects.filter(event="relayer.top_up_removed").order_by("pk")
    return [json.loads(bytes(row.body))["data"] for row in rows]


def event(actor: str) -> dict[str, Any]:
    return {**DATA, "actor": actor, "reason": ACCOUNT_CHANGED}


def test_a_patch_of_the_signer_removes_it_and_says_so(user: User, poor: Relayer) -> None:
    kept = client(user, "manage").patch(PATH, {"signer_id": "signer-1", "name": "Poor", "paused": False})
    assert (kept.status, stored(), events()) == (200, TOP_UP, [])
    answer = client(user, "manage").patch(PATH, {"signer_id": "signer-2"})

    shown = {
        "id": "poor",
        **{name: value for name, value in DATA.items() if name != "relayer_id"},
        "address": OTHER_ADDRESS,
        "signer_id": "signer-2",
        "notification_id": "hook-1",
        "paused": False,
        "system_disabled": False,
    }
    assert (answer.status, answer.body) == (200, bodies.success(shown, logs=[f"top_up: {TOP_UP_REMOVED}"]))
    assert (stored(), changes(), events()) == ({}, {**RE_POINTED, **AUDITED}, [event("token terraform")])


def test_another_signer_with_the_same_key_removes_it_too(user: User, poor: Relayer) -> None:
    factories.signer("signer-3")
    answer = client(user, "manage").patch(PATH, {"signer_id": "signer-3"})
    assert (answer.status, stored(), events()) == (200, {}, [event("token terraform")])


def test_whoever_may_set_it_can_do_so_with_the_new_signer(user: User, poor: Relayer) -> None:
    body = {"signer_id": "signer-2", "top_up": TOP_UP}
    refused = client(user, "manage").patch(PATH, body)
    assert (refused.status, refused.headers["error-code"]) == (403, "insufficient_scope")
    assert Relayer.objects.get(identifier="poor").address == ADDRESS

    answer = client(user, "manage", "send").patch(PATH, body)
    assert (answer.status, answer.body["metadata"]["logs"]) == (200, [])
    assert (answer.body["data"]["address"], stored(), changes()) == (OTHER_ADDRESS, TOP_UP, RE_POINTED)
    assert events() == []


def test_a_replaced_key_removes_it_or_nothing_changes(
    admin_client: Client, poor: Relayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise ZeroDivisionError

    path = f"/admin/signers/signer/{poor.signer.pk}/change/"
    form = {"plain__key": OTHER_KEY, "confirmed_address": OTHER_ADDRESS}
    with monkeypatch.context() as patch:
        patch.setattr(writes, "report_removed_top_ups", fail)
        with pytest.raises(ZeroDivisionError):
            admin_client.post(path, form)
        with pytest.raises(ZeroDivisionError):
            admin_pages.edit(admin_client, poor, signer=factories.signer("signer-2").pk, address="")
    assert (stored(), Relayer.objects.get(identifier="poor").address) == (TOP_UP, ADDRESS)
    assert signing.known_identity(Signer.objects.get(identifier="signer-1")) == ADDRESS

    admin_client.post(path, form)
    assert Relayer.objects.get(identifier="poor").address == OTHER_ADDRESS
    assert (stored(), changes(), events()) == ({}, {**MOVED, **AUDITED}, [event("user admin")])


def test_the_form_of_a_relayer_removes_it_with_a_message(admin_client: Client, poor: Relayer) -> None:
    page = admin_pages.edit(admin_client, poor, signer=factories.signer("signer-2").pk, address="")
    assert f"poor: {TOP_UP_REMOVED}" in told(page)
    assert (stored(), changes(), events()) == ({}, {**RE_POINTED, **AUDITED}, [event("user admin")])


def test_the_form_of_a_relayer_can_set_it_for_the_new_account(admin_client: Client, poor: Relayer) -> None:
    admin_pages.edit(admin_client, poor, signer=factories.signer("signer-2").pk, address="", top_up_target="4")
    expected = {**RE_POINTED, "top_up.target": ["3", "4"]}
    assert (stored(), changes(), events()) == ({**TOP_UP, "target": "4"}, expected, [])


def test_another_network_of_the_same_chain_removes_it(admin_client: Client, poor: Relayer) -> None:
    with stub_nodes() as nodes:
        urls = {"rpc_urls-0-url": nodes.url(SEPOLIA), "rpc_urls-0-weight": "100", "rpc_urls-TOTAL_FORMS": "1"}
        page = admin_pages.edit(admin_client, poor, network="my-sepolia", chain_id=str(SEPOLIA), **urls)
    assert f"poor: {TOP_UP_REMOVED}" in told(page)
    assert (stored(), events()) == ({}, [{**event("user admin"), "network": "my-sepolia"}])


def test_a_fleet_file_with_another_key_removes_that_of_relayers_not_in_it(poor: Relayer, tmp_path: Path) -> None:
    replaced = {"signers": [SIGNER | {"config": {"key": OTHER_KEY}}]}
    load(replaced, tmp_path, CONFIRM)
    assert Relayer.objects.get(identifier="poor").address == OTHER_ADDRESS
    assert (stored(), len(events())) == ({}, 1)


def test_a_fleet_file_that_has_it_sets_it_for_the_new_account(poor: Relayer, tmp_path: Path) -> None:
    entry = {**SPARSE, "id": "poor", "name": "Poor", "signer_id": "signer-2", "top_up": TOP_UP}
    load({"relayers": [entry]}, tmp_path, CONFIRM)
    assert Relayer.objects.get(identifier="poor").address == OTHER_ADDRESS
    assert (stored(), events()) == (TOP_UP, [])
