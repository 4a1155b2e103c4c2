"""The reserve of a relayer: over REST, in the admin and in fleet files; copied from the minimum of those that fund."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from relayer_service.models import AuditEntry
from relayers.models import Relayer
from relayers.writes import ABOVE_MINIMUM
from tests.api import Api
from tests.notifications.admin_pages import asked, hidden_fields
from tests.relayer_service.jobs import run_jobs
from tests.relayers import admin_pages, factories
from tests.relayers.config_files import SPARSE, document, load
from tests.relayers.test_bulk_edit import apply, preview
from tokens.writes import issue

pytestmark = pytest.mark.django_db

PATH = "/api/v1/relayers/relayer-1"
ETHER = 10**18


@pytest.fixture(autouse=True)
def extensions(settings: Any) -> None:
    settings.EXTENSIONS = ["lifecycle", "transactions"]


def reserve() -> str | None:
    return Relayer.objects.get(identifier="relayer-1").reserve_text


def test_rest_sets_shows_and_removes_it(user: User) -> None:
    manager = Api(issue(name="terraform", user=user, scopes=["manage"])[1])
    body = {"name": "New", "network": "sepolia", "network_type": "evm", "paused": False}
    factories.signer()
    answer = manager.post("/api/v1/relayers", {"id": "relayer-1", **body, "signer_id": "signer-1", "reserve": "5"})
    assert (answer.status, answer.body["data"]["reserve"], reserve()) == (201, "5", "5")
    answer = manager.patch(PATH, {"reserve": 2**128 - 1})
    assert answer.body["data"] == manager.get(PATH).body["data"]
    assert (answer.body["data"]["reserve"], reserve()) == (str(2**128 - 1), str(2**128 - 1))
    # The contract's list has no more than the contract.
    assert all("reserve" not in each for each in manager.get("/api/v1/relayers").body["data"])
    assert AuditEntry.objects.for_row(Relayer.objects.get())[0].changes == {"reserve": ["5", str(2**128 - 1)]}
    for wrong in (-1, 2**128, "0.5 ETH", 1.0, True):
        assert manager.patch(PATH, {"reserve": wrong}).status == 400
    manager.patch(PATH, {"name": "Another"})
    assert reserve() == str(2**128 - 1)
    for nothing in (None, 0):
        manager.patch(PATH, {"reserve": 7})
        answer = manager.patch(PATH, {"reserve": nothing})
        assert (answer.status, "reserve" in answer.body["data"], reserve()) == (200, False, None)
    # It protects coins, as spending rules do.
    limited = Api(issue(name="limited", user=user, scopes=["manage"], allowed_relayers=["relayer-1"])[1])
    assert limited.patch(PATH, {"reserve": 1}).status == 403


def test_a_fleet_file_sets_keeps_and_removes_it(tmp_path: Path) -> None:
    load(document({**SPARSE, "reserve": str(2**100)}), tmp_path)
    dumped = io.StringIO()
    call_command("dump_config", stdout=dumped)
    assert json.loads(dumped.getvalue())["relayers"][0]["reserve"] == reserve() == str(2**100)
    # A file from before it existed must not free the coins.
    load(document(SPARSE), tmp_path)
    assert reserve() == str(2**100)
    load(document({**SPARSE, "reserve": 0}), tmp_path)
    assert reserve() is None


def test_staff_set_it_in_coins_and_are_warned(admin_client: Client) -> None:
    rich = factories.relayer(identifier="rich")
    amounts = dict.fromkeys(("top_up_target_text", "top_up_daily_limit_text"), str(3 * ETHER))
    relayer = factories.relayer(funding_relayer=rich, top_up_minimum_text=str(ETHER), **amounts)
    done = admin_pages.edit(admin_client, relayer, reserve="1 ETH")
    assert reserve() == str(ETHER)
    assert any(ABOVE_MINIMUM in str(each) for each in done.wsgi_request._messages)
    page = admin_client.get(admin_pages.change(relayer)).content.decode()
    assert 'value="1 ETH"' in page
    assert "Balance that it keeps: it stops sending what could leave less. For example 0.5 ETH" in page
    admin_pages.edit(admin_client, relayer, reserve="")
    assert reserve() is None


def test_it_is_set_for_many_with_a_preview_that_says_what_stops(admin_client: Client) -> None:
    relayer = factories.relayer(reserve_text=str(ETHER), policies={"min_balance": 5})
    page = preview(admin_client, relayer, reserve_change="set", reserve="2 ETH")
    assert page.context["texts"] == [
        "Changes 1 relayer.",
        "A relayer whose balance is not above its new reserve stops sending: its transactions wait for funds.",
        "Reason: New provider",
    ]
    assert asked(page) == [["relayer-1", "Reserve: 1 ETH → 2 ETH"]]
    assert "apply" in hidden_fields(page)
    apply(admin_client, page)
    run_jobs()
    assert reserve() == str(2 * ETHER)
    assert Relayer.objects.get().policies == {"min_balance": 5}
