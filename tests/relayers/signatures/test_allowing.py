"""`allow_signing` of a relayer: set over REST, in fleet files and in the admin; off until then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from relayer_service.models import AuditEntry
from relayers.models import Relayer
from tests.api import Api
from tests.contract import bodies
from tests.notifications.admin_pages import staff_who_may
from tests.relayers import factories
from tests.relayers.admin_pages import ADD, add, change, edit, errors
from tests.relayers.config_files import SPARSE, document, load
from tokens.writes import issue

pytestmark = pytest.mark.django_db

PATH = "/api/v1/relayers/relayer-1"
BOTH = ["messages", "typed_data"]
FAULT = "must be one of: messages, typed_data"


@pytest.fixture
def manager(user: User, settings: Any) -> Api:
    settings.EXTENSIONS = ["lifecycle", "signing"]
    return Api(issue(name="terraform", user=user, scopes=["manage", "sign"])[1])


def allowed() -> Any:
    return Relayer.objects.get().allow_signing


def test_it_is_set_and_removed_over_rest_and_not_in_the_list_of_the_contract(manager: Api, api: Api) -> None:
    factories.signer()
    body = SPARSE | {"paused": False}
    assert "allow_signing" not in manager.post("/api/v1/relayers", body | {"id": "other"}).body["data"]
    created = manager.post("/api/v1/relayers", body | {"allow_signing": ["typed_data", "messages"]})
    assert (created.status, created.body["data"]["allow_signing"]) == (201, BOTH)
    assert manager.get(PATH).body["data"] == created.body["data"]
    for client in (manager, api):
        assert not any("allow_signing" in each for each in client.get("/api/v1/relayers").body["data"])
    changed = manager.patch(PATH, {"allow_signing": ["messages"]})
    assert changed.body["data"] == created.body["data"] | {"allow_signing": ["messages"]}
    kept = manager.patch(PATH, {"name": "Another"})
    assert kept.body["data"]["allow_signing"] == ["messages"]
    nothings: list[Any] = [[], None]
    for nothing in nothings:
        manager.patch(PATH, {"allow_signing": BOTH})
        assert "allow_signing" not in manager.patch(PATH, {"allow_signing": nothing}).body["data"]


def test_another_value_is_refused(manager: Api, tmp_path: Path) -> None:
    factories.relayer()
    cases: list[tuple[Any, str]] = [
        (["everything"], f"allow_signing[0]: {FAULT}"),
        (["messages", None], "allow_signing[1]: null is not allowed here"),
        (["messages"] * 3, "allow_signing: at most 2 entries are allowed"),
        ("messages", "allow_signing: a list is required"),
    ]
    for value, fault in cases:
        answer = manager.patch(PATH, {"allow_signing": value})
        assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))
    with pytest.raises(CommandError, match="allow_signing"):
        load(document(SPARSE | {"allow_signing": ["everything"]}), tmp_path)
    assert allowed() == []


def test_a_fleet_file_sets_it_and_an_entry_without_it_removes_it(tmp_path: Path) -> None:
    entry = SPARSE | {"allow_signing": ["messages"]}
    load(document(entry), tmp_path)
    assert allowed() == ["messages"]
    output = tmp_path / "dump.json"
    call_command("dump_config", "--output", str(output))
    assert json.loads(output.read_text())["relayers"][0]["allow_signing"] == ["messages"]
    assert "relayer relayer-1: unchanged" in load(document(entry), tmp_path)[0]
    assert "relayer relayer-1: updated (allow_signing)" in load(document(SPARSE), tmp_path)[0]
    assert allowed() == []


def test_staff_set_it_with_a_warning_and_it_is_recorded(admin_client: Client) -> None:
    text = admin_client.get(ADD).content.decode()
    assert "a signed permit (EIP-2612) can empty the account" in text
    add(admin_client, allow_signing=["messages"])
    assert allowed() == ["messages"]
    relayer = Relayer.objects.get()
    edit(admin_client, relayer, name="Another")
    assert allowed() == ["messages"]
    edit(admin_client, relayer, allow_signing=BOTH)
    assert allowed() == BOTH
    entry = AuditEntry.objects.for_row(relayer).latest("id")
    assert entry.changes == {"allow_signing": [["messages"], BOTH]}
    page = edit(admin_client, relayer, allow_signing=["everything"])
    assert errors(page).keys() == {"allow_signing"}


def test_without_the_extension_the_page_shows_it_only_where_it_is_set(
    client: Client, admin_client: Client, settings: Any
) -> None:
    settings.EXTENSIONS = []
    plain, allowing = factories.relayer(), factories.relayer(identifier="relayer-2", allow_signing=BOTH)
    shown = ['name="allow_signing"' in admin_client.get(change(row)).content.decode() for row in (plain, allowing)]
    assert shown == [False, True]
    for row in (plain, allowing):
        edit(admin_client, row, name="Another")
    stored = [*Relayer.objects.order_by("pk").values_list("name", "allow_signing")]
    assert stored == [("Another", []), ("Another", BOTH)]
    viewer = staff_who_may(client, "view_relayer")
    assert "messages (EIP-191), typed data (EIP-712)" in viewer.get(change(allowing)).content.decode()
