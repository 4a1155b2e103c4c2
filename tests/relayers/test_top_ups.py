"""The configuration of automatic top-ups: one set of rules for REST, the admin and fleet files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import Client

from relayer_service.models import AuditEntry
from relayers.console.forms import OTHERS_PAY
from relayers.fleet import NO_FUNDING
from relayers.models import Relayer
from spending.models import SpendingPolicy
from tests.api import Api
from tests.contract import bodies
from tests.notifications.admin_pages import staff_who_may
from tests.relayers import admin_pages, factories
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY, SPARSE, document, faults, load
from tokens.models import AccessToken
from tokens.writes import issue

pytestmark = pytest.mark.django_db

PATH = "/api/v1/relayers/poor"
TOP_UP = {"funding_relayer_id": "rich", "minimum": "1", "target": "3", "daily_limit": "7"}


@pytest.fixture(autouse=True)
def extensions(settings: Any) -> None:
    settings.EXTENSIONS = ["lifecycle", "transactions"]


@pytest.fixture
def rich() -> Relayer:
    return factories.relayer(identifier="rich", name="Rich")


@pytest.fixture
def poor(rich: Relayer) -> Relayer:
    return factories.relayer(identifier="poor", name="Poor")


@pytest.fixture
def manager(user: User) -> Api:
    return Api(issue(name="terraform", user=user, scopes=["manage", "send"])[1])


def stored(identifier: str = "poor") -> dict[str, str]:
    return Relayer.objects.get(identifier=identifier).top_up_values()


def test_rest_sets_shows_and_removes_it(manager: Api, poor: Relayer) -> None:
    amounts = {"minimum": 10**20, "target": str(2**100), "daily_limit": str(2**128 - 1)}
    answer = manager.patch(PATH, {"top_up": {"funding_relayer_id": "rich", **amounts}})
    shown = {"funding_relayer_id": "rich", **{name: str(value) for name, value in amounts.items()}}
    assert (answer.status, answer.body["data"]["top_up"]) == (200, shown)
    assert stored() == manager.get(PATH).body["data"]["top_up"] == shown
    # The contract's list has no more than the contract.
    assert all("top_up" not in each for each in manager.get("/api/v1/relayers").body["data"])
    changes = AuditEntry.objects.for_row(poor)[0].changes
    assert changes == {f"top_up.{name}": [None, value] for name, value in shown.items()}

    answer = manager.patch(PATH, {"name": "Still poor"})
    assert stored() == answer.body["data"]["top_up"]
    answer = manager.patch(PATH, {"top_up": None})
    assert (answer.status, "top_up" in answer.body["data"], stored()) == (200, False, {})


def test_a_relayer_is_created_with_it(manager: Api, rich: Relayer) -> None:
    body = {"name": "New", "network": "sepolia", "network_type": "evm", "signer_id": "signer-1", "paused": False}
    answer = manager.post("/api/v1/relayers", {"id": "new", **body, "top_up": TOP_UP})
    assert (answer.status, answer.body["data"]["top_up"], stored("new")) == (201, TOP_UP, TOP_UP)


def test_what_cannot_work_is_refused(manager: Api, poor: Relayer) -> None:
    factories.relayer(identifier="on-mainnet", network="mainnet")
    amounts = {"top_up_minimum_text": "1", "top_up_target_text": "2", "top_up_daily_limit_text": "2"}
    between = factories.relayer(identifier="between", funding_relayer=poor, **amounts)
    factories.relayer(identifier="funded-by-poor", funding_relayer=between, **amounts)
    itself = "top_up.funding_relayer_id: a relayer cannot fund itself, directly or through others"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"funding_relayer_id": "nobody"}, "top_up.funding_relayer_id: object with this ID does not exist"),
        ({"funding_relayer_id": "poor"}, itself),
        ({"funding_relayer_id": "funded-by-poor"}, itself),
        ({"funding_relayer_id": "on-mainnet"}, "top_up.funding_relayer_id: must be on the same chain"),
        ({"minimum": 0}, "top_up.minimum: must be above 0"),
        ({"target": "1"}, "top_up.target: must be above the minimum"),
        ({"daily_limit": 2}, "top_up.daily_limit: must not be below the target"),
        ({"target": "3.5"}, f"top_up.target: a whole number from 0 to {2**128 - 1} is required"),
        ({"minimum": 1.0}, "top_up.minimum: a whole number"),
        ({"funder": "rich"}, "top_up.funder: unknown field"),
    ]
    for changes, fault in cases:
        answer = manager.patch(PATH, {"top_up": {**TOP_UP, **changes}})
        assert (answer.status, str(answer.body).count(fault)) == (400, 1), answer.body
    assert stored() == {}


def test_a_token_needs_the_scope_to_send_with_all_relayers(user: User, poor: Relayer) -> None:
    """Otherwise a token that cannot send could have its own account topped up."""
    for scopes, relayers, status in [
        (["manage"], [], 403),
        (["manage", "send"], ["rich", "poor"], 403),
        (["manage", "send"], [], 200),
    ]:
        api = Api(issue(name="limited", user=user, scopes=scopes, allowed_relayers=relayers)[1])
        assert api.patch(PATH, {"top_up": TOP_UP}).status == status
        assert stored() == (TOP_UP if status == 200 else {})


@pytest.mark.parametrize(("rules", "status"), [({}, 200), ({"max_value": "1"}, 403)])
def test_a_token_with_spending_rules_sets_none(user: User, poor: Relayer, rules: dict[str, str], status: int) -> None:
    """The funding relayer sends without them, to an account whose key the token's holder may have."""
    made, text = issue(name="limited", user=user, scopes=["manage", "send"])
    # It is in the cache when it gets its first rules.
    assert Api(text).patch(PATH, {"top_up": None}).status == 200
    AccessToken.objects.filter(pk=made.pk).update(spending=SpendingPolicy.objects.create(rules=rules))
    assert Api(text).patch(PATH, {"top_up": TOP_UP}).status == status
    assert stored() == (TOP_UP if status == 200 else {})
    # Neither does it remove one.
    assert Api(text).patch(PATH, {"top_up": None}).status == status


def test_who_funds_others_is_neither_deleted_nor_moved(manager: Api, poor: Relayer, admin_client: Client) -> None:
    manager.patch(PATH, {"top_up": TOP_UP})
    reason = (
        "Relayer rich funds the relayer poor. Remove the top-up of that relayer, or choose another funding relayer."
    )

    answer = manager("DELETE", "/api/v1/relayers/rich")
    assert (answer.status, answer.body) == (409, bodies.failure(reason))
    page = admin_pages.edit(admin_client, Relayer.objects.get(identifier="rich"), network="mainnet")
    assert admin_pages.errors(page) == {"network": [reason]}
    page = admin_client.get(f"/admin/relayers/relayer/{Relayer.objects.get(identifier='rich').pk}/delete/")
    assert reason in page.content.decode()

    manager.patch(PATH, {"top_up": None})
    assert manager("DELETE", "/api/v1/relayers/rich").status == 200


def test_staff_set_it_in_coins(admin_client: Client, poor: Relayer, rich: Relayer) -> None:
    amounts = {"top_up_minimum": "0.5 ETH", "top_up_target": "2 ETH", "top_up_daily_limit": "4000000000000000000"}
    admin_pages.edit(admin_client, poor, funding_relayer=rich.pk, **amounts)
    expected = {"minimum": str(5 * 10**17), "target": str(2 * 10**18), "daily_limit": str(4 * 10**18)}
    assert stored() == {"funding_relayer_id": "rich", **expected}
    page = admin_client.get(admin_pages.change(poor)).content.decode()
    assert "below 0.5 ETH, up to 2 ETH; at most 4 ETH in 24 hours" in page

    admin_pages.edit(admin_client, poor, top_up_target="3 ETH")
    faults: list[tuple[dict[str, Any], list[str]]] = [
        ({"top_up_target": ""}, ["top_up_target"]),
        ({"top_up_target": "many"}, ["top_up_target"]),
        ({"funding_relayer": poor.pk}, ["funding_relayer"]),
    ]
    for changes, fields in faults:
        assert [*admin_pages.errors(admin_pages.edit(admin_client, poor, **changes))] == fields
    form = admin_pages.change(poor)
    refused = admin_client.post(form, admin_pages.open_form(admin_client, form) | {"top_up_target": "0.1 ETH"})
    assert admin_pages.errors(refused) == {"top_up_target": ["must be above the minimum"]}
    # The panel shows what is stored.
    assert "below 0.5 ETH, up to 3 ETH;" in refused.content.decode()
    assert stored()["target"] == str(3 * 10**18)
    admin_pages.edit(admin_client, poor, **dict.fromkeys(["funding_relayer", *amounts], ""))
    assert stored() == {}


STAFF = ["view_relayer", "add_relayer", "change_relayer", "view_signer", "view_notification", "view_transaction"]
TYPED = {"top_up_minimum": "1", "top_up_target": "3", "top_up_daily_limit": "7"}


def test_staff_who_cannot_send_transactions_neither_set_change_nor_remove_it(
    client: Client, poor: Relayer, rich: Relayer
) -> None:
    staff = staff_who_may(client, *STAFF)
    admin_pages.edit(staff, poor, name="Poorer", funding_relayer=rich.pk, **TYPED)
    own = factories.signer("signer-2", key=OTHER_KEY)
    admin_pages.add(staff, identifier="new", name="New", signer=own.pk, funding_relayer=rich.pk, **TYPED)
    assert (stored(), stored("new")) == ({}, {})
    page = staff.get(admin_pages.change(poor)).content.decode()
    assert "Requires the permission transactions.add_transaction." in page

    user = User.objects.get(username="vera")
    permission = Permission.objects.get(codename="add_transaction")
    user.user_permissions.add(permission)
    admin_pages.edit(staff, poor, funding_relayer=rich.pk, **TYPED)
    assert stored() == TOP_UP
    user.user_permissions.remove(permission)
    admin_pages.edit(staff, poor, top_up_daily_limit="1000")
    admin_pages.edit(staff, poor, name="Poorest", **dict.fromkeys(["funding_relayer", *TYPED], ""))
    assert (stored(), Relayer.objects.get(identifier="poor").name) == (TOP_UP, "Poorest")


def test_staff_who_cannot_send_transactions_assign_no_key_of_others(client: Client, rich: Relayer) -> None:
    other = factories.signer("signer-2", key=OTHER_KEY)
    small = factories.relayer(identifier="small", signer=other, address=OTHER_ADDRESS)
    answer = admin_pages.edit(staff_who_may(client, *STAFF), small, name="Small", signer=rich.signer.pk)
    assert admin_pages.errors(answer) == {"signer": [OTHERS_PAY]}
    assert Relayer.objects.get(identifier="small").address == OTHER_ADDRESS
    own = factories.signer("signer-3", key="0x" + "11" * 32)
    admin_pages.edit(client, small, signer=own.pk)
    assert Relayer.objects.get(identifier="small").signer == own


def test_a_fleet_file_sets_keeps_and_removes_it(tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = [{**SPARSE, "id": "rich"}, {**SPARSE, "id": "poor", "top_up": TOP_UP}]
    load(document(*entries), tmp_path)
    assert stored() == TOP_UP
    output, _ = load(document(*entries), tmp_path)
    assert any("unchanged" in line for line in output), output

    # Who funds it comes first in a dump, also when it was created later.
    load(
        document(
            {**SPARSE, "id": "richer"}, {**SPARSE, "id": "poor", "top_up": {**TOP_UP, "funding_relayer_id": "richer"}}
        ),
        tmp_path,
    )
    dumped = io.StringIO()
    call_command("dump_config", stdout=dumped)
    names = [entry["id"] for entry in json.loads(dumped.getvalue())["relayers"]]
    assert names.index("richer") < names.index("poor")

    load(document({**SPARSE, "id": "poor"}), tmp_path)
    assert stored() == {}


def test_a_fleet_file_has_the_same_rules(tmp_path: Path) -> None:
    rich, poor = {**SPARSE, "id": "rich"}, {**SPARSE, "id": "poor", "top_up": {**TOP_UP, "target": 1}}
    no_funding = f"relayers[0].top_up.funding_relayer_id: {NO_FUNDING}"
    assert no_funding in faults(document(poor, rich), tmp_path)
    assert "relayers[1].top_up.target: must be above the minimum" in faults(document(rich, poor), tmp_path)
