"""Tags of relayers: over REST, in the admin and in fleet files, and which relayers a token with `tag:NAME` reaches."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from relayer_service.models import AuditEntry
from relayers.models import Relayer, RelayerTag
from relayers.models.tags import save_tags
from relayers.reach import reached
from relayers.writes import RelayerWrite
from tests.api import Api
from tests.notifications.admin_pages import staff_who_may
from tests.relayer_service.jobs import run_jobs
from tests.relayers import admin_pages, factories
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY, SPARSE, document, load
from tests.relayers.signatures.requests import MESSAGE, SIGN
from tests.transactions.rest.requests import TRANSFER
from tokens.writes import issue

pytestmark = [pytest.mark.django_db, pytest.mark.both_engines]

LIST = "/api/v1/relayers"
PATH = f"{LIST}/relayer-1"
BODY = {"id": "relayer-1", "name": "New", "network": "sepolia", "network_type": "evm", "paused": False}


@pytest.fixture(autouse=True)
def extensions(settings: Any) -> None:
    settings.EXTENSIONS = ["lifecycle", "transactions", "signing"]


def client(user: User, *relayers: str, scopes: tuple[str, ...] = ("manage",), **limits: Any) -> Api:
    return Api(issue(name="tests", user=user, scopes=list(scopes), allowed_relayers=list(relayers), **limits)[1])


def tag(relayer: Relayer, *names: str) -> Relayer:
    save_tags({relayer.pk: names})
    return relayer


def names() -> list[tuple[str, str]]:
    return sorted(RelayerTag.objects.values_list("relayer__identifier", "name"))


def ids(answer: Any) -> list[str]:
    return [each["id"] for each in answer.body["data"]]


def test_rest_sets_shows_and_removes_them(user: User) -> None:
    api = client(user)
    factories.signer()
    answer = api.post(LIST, {**BODY, "signer_id": "signer-1", "tags": ["prod", "eu-1", "prod"]})
    assert (answer.status, answer.body["data"]["tags"]) == (201, ["eu-1", "prod"])
    answer = api.patch(PATH, {"tags": ["x" * 32]})
    assert answer.body["data"] == api.get(PATH).body["data"]
    assert (answer.body["data"]["tags"], names()) == (["x" * 32], [("relayer-1", "x" * 32)])
    assert all("tags" not in each for each in api.get(LIST).body["data"])
    relayer = Relayer.objects.get()
    assert AuditEntry.objects.for_row(relayer)[0].changes == {"tags": [["eu-1", "prod"], ["x" * 32]]}
    for wrong in ("prod", [""], ["Prod"], ["-a"], ["a b"], ["x" * 33], ["a\n"], [1], [f"t{n}" for n in range(17)]):
        assert api.patch(PATH, {"tags": wrong}).status == 400
    api.patch(PATH, {"name": "Another"})
    assert names() == [("relayer-1", "x" * 32)]
    nothing: Any
    for nothing in (None, []):
        tag(relayer, "prod")
        answer = api.patch(PATH, {"tags": nothing})
        assert (answer.status, "tags" in answer.body["data"], names()) == (200, False, [])


def test_only_a_token_without_limits_sets_them(user: User) -> None:
    tag(factories.relayer(), "prod")
    limited = {"scopes": ("manage", "send", "sign", "rotate")}
    for api in (
        client(user, "relayer-1", **limited),
        client(user, "tag:prod", **limited),
        client(user, spending_rules={"max_value": "1"}, **limited),
        client(user, scopes=("send", "sign", "read")),
        Api(issue(name="contract", user=user)[1]),
    ):
        for change in (["other"], [], None):
            assert api.patch(PATH, {"tags": change}).status == 403
        assert api.post(LIST, {**BODY, "id": "new", "signer_id": "signer-1", "tags": ["prod"]}).status == 403
        assert api("DELETE", PATH).status == 403
    assert names() == [("relayer-1", "prod")]


def test_lists_and_jobs_are_filtered_by_tag(user: User) -> None:
    api = client(user)
    for number in (1, 2, 3):
        tag(factories.relayer(identifier=f"relayer-{number}"), *(["prod", "eu"] if number > 1 else ["test"]))
    assert ids(api.get(f"{LIST}?tag=prod")) == ["relayer-2", "relayer-3"]
    assert ids(api.get(f"{LIST}?tag=pro")) == []
    assert api.post(f"{LIST}/pause", {"filter": {"tag": "test"}}).body["data"]["total"] == 1
    run_jobs()
    assert list(Relayer.objects.filter(paused=True).values_list("identifier", flat=True)) == ["relayer-1"]


def test_a_token_reaches_the_relayers_with_its_tag_from_request_to_request(user: User) -> None:
    scopes = ("manage", "send", "sign")
    relayer = factories.relayer(allow_signing=["messages"])
    other = factories.signer("signer-2", key=OTHER_KEY)
    tag(factories.relayer(identifier="other", signer=other, address=OTHER_ADDRESS), "other")
    api, sender = client(user, "tag:prod", "gone", scopes=scopes), client(user, "tag:prod", scopes=("send",))

    def statuses() -> list[int]:
        transactions = f"{PATH}/transactions"
        writes = [api.patch(PATH, {"name": "Mine"}), api.post(SIGN, MESSAGE), api.post(transactions, TRANSFER)]
        return [each.status for each in (*writes, sender.get(PATH), sender.get(transactions), api.get(PATH))]

    nothing = [403, 403, 403, 404, 404, 200]
    assert (statuses(), ids(sender.get(LIST))) == (nothing, [])
    tag(relayer, "prod", "eu")
    assert (statuses(), ids(sender.get(LIST))) == ([200] * 6, ["relayer-1"])
    assert api.post(f"{LIST}/pause", {"filter": {}}).body["data"]["total"] == 1
    assert api.patch(f"{LIST}/other", {"name": "Mine"}).status == 403
    tag(relayer, "eu")
    assert (statuses(), ids(sender.get(LIST))) == (nothing, [])
    assert api.post(f"{LIST}/pause", {"filter": {}}).body["data"]["total"] == 0
    # The answer does not disclose whether a relayer exists.
    assert client(user, "tag:prod", scopes=scopes).post(f"{LIST}/nobody/transactions", TRANSFER).status == 403


def test_a_new_relayer_does_not_inherit_the_tags_of_a_deleted_one(user: User) -> None:
    api, sender = client(user), client(user, "tag:prod", scopes=("send",))
    tag(factories.relayer(), "prod")
    assert api("DELETE", PATH).status == 200
    assert not RelayerTag.objects.exists()
    assert api.post(LIST, {**BODY, "signer_id": "signer-1"}).status == 201
    # Nor from rows that a process of the last release leaves behind.
    save_tags({Relayer.objects.get().pk - 1: ["prod"]})
    assert (sender.get(PATH).status, ids(sender.get(LIST))) == (404, [])


def test_a_tag_is_no_id_and_an_id_no_tag(user: User) -> None:
    tag(factories.relayer(identifier="tag:prod"), "other")
    tag(factories.relayer(identifier="prod"), "tagged")
    assert not reached(["tag:prod"], Relayer.objects.all())
    assert client(user, "tag:prod").patch(f"{LIST}/tag:prod", {"name": "Mine"}).status == 403
    assert [each.identifier for each in reached(["tag:other", "prod"], Relayer.objects.all())] == ["tag:prod", "prod"]
    assert client(user, "tag:prod").patch(f"{LIST}/%00", {"name": "Mine"}).status == 404
    for wrong in ("tag:", "tag:Prod", "tag:a b"):
        with pytest.raises(ValidationError):
            client(user, wrong)


def test_what_signs_for_another_relayer_needs_its_tag_too(user: User) -> None:
    tag(factories.relayer(allow_signing=["messages"]), "prod")
    twin = factories.relayer(identifier="twin", network="mainnet", allow_signing=["messages"])
    signer = client(user, "tag:prod", scopes=("sign",))
    assert signer.post(SIGN, MESSAGE).status == 403
    tag(twin, "prod")
    assert signer.post(SIGN, MESSAGE).status == 200


def test_a_fleet_file_sets_keeps_and_removes_them(tmp_path: Path) -> None:
    load(document({**SPARSE, "tags": ["prod", "eu"]}), tmp_path)
    assert names() == [("relayer-1", "eu"), ("relayer-1", "prod")]
    dumped = io.StringIO()
    call_command("dump_config", stdout=dumped)
    assert json.loads(dumped.getvalue())["relayers"][0]["tags"] == ["eu", "prod"]
    load(document(SPARSE), tmp_path)
    assert len(names()) == 2
    load(document({**SPARSE, "tags": []}), tmp_path)
    assert names() == []
    assert AuditEntry.objects.filter(object_type="relayer").latest("id").changes == {"tags": [["eu", "prod"], []]}


def test_staff_set_them_on_the_page_of_a_relayer(admin_client: Client, client: Client) -> None:
    relayer = tag(factories.relayer(), "prod")
    assert admin_pages.open_form(admin_client, admin_pages.change(relayer))["tags"] == "prod"
    admin_pages.edit(admin_client, relayer, tags="prod, eu\ttest")
    assert [name for _, name in names()] == ["eu", "prod", "test"]
    admin_pages.edit(admin_client, relayer, name="Another")
    page = admin_pages.edit(admin_client, relayer, tags="Wrong!")
    assert "does not start with - or _" in str(page.context_data["adminform"].form.errors["tags"])
    assert len(names()) == 3
    # Somebody who may only look sees them, and cannot set them.
    viewer = staff_who_may(client, "view_relayer", "pause_relayer")
    assert "eu, prod, test" in viewer.get(admin_pages.change(relayer)).content.decode()
    assert viewer.post(admin_pages.change(relayer), {"tags": "mine"}).status_code == 403
    admin_pages.edit(admin_client, relayer, tags="")
    assert names() == []


def test_the_list_is_filtered_by_tags_with_as_many_queries_for_many(admin_client: Client) -> None:
    for number in range(1, 4):
        tag(factories.relayer(identifier=f"relayer-{number}"), "all", f"tag-{number}")
    costs = []
    for chosen, expected in ((["tag-1"], ["relayer-1"]), (["all"], ["relayer-3", "relayer-2", "relayer-1"])):
        with CaptureQueriesContext(connection) as queries:
            page = admin_client.get(admin_pages.LIST, {"tag": chosen})
        assert [row.identifier for row in page.context["cl"].result_list] == expected
        costs.append(len(queries))
    assert costs[0] == costs[1]
    content = page.content.decode()
    assert all(f'value="{name}"' in content for name in ("all", "tag-1", "tag-2", "tag-3"))


def test_many_are_deleted_with_as_many_queries(admin_client: Client) -> None:
    costs = []
    for count in (1, 20):
        rows = [tag(factories.relayer(identifier=f"{count}-{number}"), "a") for number in range(count)]
        chosen = {"action": "delete_selected", "_selected_action": [row.pk for row in rows], "post": "yes"}
        with CaptureQueriesContext(connection) as queries:
            admin_client.post(admin_pages.LIST, chosen)
        costs.append(len(queries))
    assert (Relayer.objects.count(), RelayerTag.objects.count()) == (0, 0)
    assert costs[0] == costs[1]
    assert AuditEntry.objects.filter(action="deleted")[0].changes["tags"] == [["a"], None]


def test_tags_are_offered_for_a_token(admin_client: Client, admin_user: User) -> None:
    tag(factories.relayer(), "prod", "prod-eu", "test")
    page = "/admin/tokens/accesstoken/relayers/"

    def found(term: str) -> dict[str, str]:
        return {each["id"]: each["text"] for each in admin_client.get(page, {"term": term}).json()["results"]}

    offered = {f"tag:{name}": f"tag:{name} (relayers with this tag)" for name in ("prod", "prod-eu", "test")}
    assert found("") == {**offered, "relayer-1": "relayer-1 (Relayer 1)"}
    assert found("tag:test") == {"tag:test": offered["tag:test"]}
    assert [*found("prod")] == ["tag:prod", "tag:prod-eu", "prod"]
    assert found("tag:new") == {"tag:new": "tag:new (no relayer has this tag)"}
    token, _ = issue(name="ci", user=admin_user, scopes=["send"], allowed_relayers=["tag:prod", "tag:gone"])
    html = admin_client.get(f"/admin/tokens/accesstoken/{token.pk}/change/").content.decode()
    assert "tag:prod (relayers with this tag)" in html
    assert "tag:gone (no relayer has this tag)" in html


def test_a_write_without_them_reads_no_more_for_many() -> None:
    relayer = tag(factories.relayer(), "prod")
    row = Relayer.objects.select_related("signer", "health").prefetch_related("tag_rows").get(pk=relayer.pk)
    with CaptureQueriesContext(connection) as queries:
        RelayerWrite(row)
    assert not any("relayertag" in each["sql"] for each in queries)
