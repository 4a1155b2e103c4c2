"""Getting started: the steps on the overview, and the demo that takes them all."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chain.networks import networks
from notifications.models import Delivery, Notification
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from signers.models import Signer
from tests.chain.answering_node import node_answering
from tests.chain.faults import NodeServer
from tests.notifications.admin_pages import staff_who_may, told
from tests.notifications.factories import emit_test
from tests.relayers import factories
from tests.transactions import factories as sending
from tokens.models import AccessToken
from tokens.writes import issue
from transactions.models import Transaction

pytestmark = pytest.mark.django_db

STEPS = "/admin/getting-started/"
TITLES = ["Add a signer", "Add a relayer", "Add a webhook", "Send a test event", "Issue a token", "Send a transaction"]
KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"


@pytest.fixture(autouse=True)
def extension(settings: Any) -> None:
    settings.EXTENSIONS = ["transactions"]


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeServer]:
    """The node of the network `hardhat`."""
    with node_answering(eth_chainId={"result": hex(31337)}) as node:
        use_node(monkeypatch, node.url)
        yield node


def use_node(monkeypatch: pytest.MonkeyPatch, url: str, chain_id: int = 31337) -> None:
    local = replace(networks()["hardhat"], rpc_urls=(url,), chain_id=chain_id)
    monkeypatch.setitem(networks(), "hardhat", local)


def target(client: Client, url: str) -> str:
    """Return where a redirect leads."""
    return client.get(url)["Location"]


def steps(client: Client) -> dict[str, bool]:
    """Return the steps on the overview, and whether each is done."""
    card = client.get("/admin/").context["getting_started"]
    return {row["step"].title: row["done"] for row in card["rows"]} if card else {}


def test_an_empty_overview_has_all_steps_which_tick_themselves(admin_client: Client, admin_user: User) -> None:
    assert steps(admin_client) == dict.fromkeys(TITLES, False)
    hook = factories.notification()
    relayer = factories.relayer(network="hardhat")
    issue(name="first", user=admin_user)
    missing = {"Send a test event": False, "Send a transaction": False}
    assert steps(admin_client) == dict.fromkeys(TITLES, True) | missing
    emit_test(hook)
    row = sending.transaction(sending.lane(relayer))
    assert steps(admin_client) == dict.fromkeys(TITLES, True) | {"Send a transaction": False}
    confirm(row)
    assert steps(admin_client) == {}


def confirm(row: Transaction) -> None:
    mined = sending.attempt(row, nonce=0)
    Transaction.objects.filter(pk=row.pk).update(**sending.final("confirmed"), nonce=0, mined_attempt=mined)


def test_staff_see_the_steps_that_they_may_take(client: Client) -> None:
    staff = staff_who_may(client, "add_signer", "add_notification")
    page = staff.get("/admin/")
    assert [row["step"].title for row in page.context["getting_started"]["rows"]] == ["Add a signer", "Add a webhook"]
    assert "Set up a local demo" not in page.text
    assert staff.get(f"{STEPS}relayer/").status_code == 403
    assert staff.post(f"{STEPS}demo/").status_code == 403
    assert not Signer.objects.exists()


def test_without_the_extension_there_is_no_transaction_to_send(admin_client: Client, settings: Any) -> None:
    settings.EXTENSIONS = []
    assert list(steps(admin_client)) == TITLES[:-1]
    assert admin_client.get(f"{STEPS}transaction/").status_code == 404


def queries(client: Client) -> int:
    """Return how many queries of the overview are about the steps, of which it shows none."""
    with CaptureQueriesContext(connection) as made:
        assert steps(client) == {}
    return sum("done_0" in query["sql"] for query in made.captured_queries)


def test_many_relayers_leave_the_steps_which_cost_one_query_when_done_and_none_once_dismissed(
    admin_client: Client, admin_user: User
) -> None:
    relayers = [factories.relayer(identifier=f"relayer-{number}") for number in range(11)]
    assert steps(admin_client)["Send a transaction"] is False
    emit_test(factories.notification())
    issue(name="first", user=admin_user)
    confirm(sending.transaction(sending.lane(relayers[0])))
    assert queries(admin_client) == 1
    assert admin_client.get(f"{STEPS}dismiss/").status_code == 405
    assert admin_client.post(f"{STEPS}dismiss/")["Location"] == "/admin/"
    assert queries(admin_client) == 0


def test_a_step_opens_the_form_with_defaults_once_it_can_be_taken(admin_client: Client) -> None:
    signer = target(admin_client, f"{STEPS}signer/")
    assert signer == "/admin/signers/signer/add/?identifier=signer-1&type=plain&key_source=hardhat&getting_started=1"
    assert target(admin_client, f"{STEPS}webhook/") == (
        "/admin/notifications/notification/add/?identifier=webhook-1"
        "&url=http%3A%2F%2F127.0.0.1%3A8000%2Fdemo%2Fwebhook&getting_started=1"
    )
    assert target(admin_client, f"{STEPS}token/") == (
        "/admin/tokens/accesstoken/add/?name=First+application&scopes=read%2Cmanage%2Csend&getting_started=1"
    )
    page = admin_client.get(target(admin_client, f"{STEPS}token/"))
    assert page.context["adminform"].form["scopes"].value() == ["read", "manage", "send"]
    locked = {TITLES[1]: TITLES[0], TITLES[3]: TITLES[2], TITLES[5]: TITLES[1]}
    rows = admin_client.get("/admin/").context["getting_started"]["rows"]
    assert {row["step"].title: row["needs"] for row in rows} == dict.fromkeys(TITLES, "") | locked
    for name, title in (("relayer", TITLES[1]), ("test-event", TITLES[3]), ("transaction", TITLES[5])):
        page = admin_client.get(f"{STEPS}{name}/", follow=True)
        told_first = [f"“{title}” needs “{locked[title]}” first."]
        assert (page.redirect_chain[0][0], told(page)) == ("/admin/", told_first)
        assert f'href="{STEPS}{name}/"' not in page.text
    relayer, hook = factories.relayer(), factories.notification("hook")
    assert target(admin_client, f"{STEPS}relayer/") == (
        "/admin/relayers/relayer/add/?identifier=relayer-1&name=Relayer+1&network=hardhat"
        f"&signer={relayer.signer_id}&getting_started=1"
    )
    assert target(admin_client, f"{STEPS}test-event/") == (f"/admin/notifications/notification/{hook.pk}/change/")
    assert target(admin_client, f"{STEPS}transaction/") == f"/admin/relayers/relayer/{relayer.pk}/try_it/"


@pytest.mark.parametrize(("source", "is_public"), [("hardhat", True), ("generate", False)])
def test_a_signer_is_added_without_typing_a_key(admin_client: Client, source: str, is_public: bool) -> None:
    url = target(admin_client, f"{STEPS}signer/")
    both = {"identifier": "signer-1", "type": "plain", "key_source": source, "plain__key": KEY}
    page = admin_client.post("/admin/signers/signer/add/", both)
    assert page.context["adminform"].form.errors == {"plain__key": ["Enter a key or choose another source, not both."]}
    added = admin_client.post(url, {"identifier": "signer-1", "type": "plain", "key_source": source})
    assert added["Location"] == "/admin/"
    key = Signer.objects.get().full_config()["key"]
    assert (key == KEY) is is_public
    assert re.fullmatch("0x[0-9a-f]{64}", key)
    assert key not in admin_client.get(f"/admin/signers/signer/{Signer.objects.get().pk}/change/").text


def test_production_neither_offers_the_public_key_nor_the_demo(admin_client: Client, settings: Any) -> None:
    settings.LOCAL = False
    assert "Set up a local demo" not in admin_client.get("/admin/").text
    assert admin_client.post(f"{STEPS}demo/").status_code == 403
    values = {"identifier": "signer-1", "type": "plain", "key_source": "hardhat"}
    page = admin_client.post("/admin/signers/signer/add/", values)
    assert page.context["adminform"].form.errors["key_source"] == [
        "Select a valid choice. hardhat is not one of the available choices."
    ]


def test_the_demo_takes_all_steps_once(admin_client: Client, admin_user: User, node: NodeServer) -> None:
    assert admin_client.post("/demo/webhook", b"{}", content_type="application/json").status_code == 204
    page = admin_client.post(f"{STEPS}demo/")
    assert page.status_code == 200
    assert page["Cache-Control"].startswith("no-store")
    relayer, row, token = Relayer.objects.get(), Transaction.objects.get(), AccessToken.objects.get()
    assert (relayer.identifier, relayer.network, relayer.signer.identifier) == ("demo", "hardhat", "demo")
    assert relayer.notification == Notification.objects.get(identifier="demo", url__endswith="/demo/webhook")
    assert (row.relayer, row.to, row.value, row.requested_by) == (relayer, relayer.address, 0, "admin")
    assert [*Delivery.objects.values_list("event", flat=True)] == ["notification.test"]
    assert (token.user, token.scopes) == (admin_user, ["read", "manage", "send"])
    assert page.context["demo"].token.startswith(token.shown_key.partition("…")[0].rstrip("."))
    assert {*AuditEntry.objects.values_list("actor", flat=True)} == {"admin"}
    # As `curl`, the page's last line sends the same once more.
    _, _, bearer, url, _, key, _, kind, _, body = shlex.split(page.context["curl"])
    sent = Client().post(urlsplit(url).path, body, kind.split()[1], headers=dict(h.split(": ") for h in (bearer, key)))
    assert (sent.status_code, Transaction.objects.count()) == (200, 2)
    again = admin_client.post(f"{STEPS}demo/")
    assert again.context["demo"].token == ""
    counts = [model.objects.count() for model in (Signer, Relayer, Notification, Delivery, AccessToken, Transaction)]
    assert counts == [1, 1, 1, 1, 1, 2]


def test_without_the_local_node_nothing_is_created(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    # The chain of another node, or a network of that name with another chain.
    for chain_id, urls in ((31337, "http://127.0.0.1:9"), (1, "any URL")):
        use_node(monkeypatch, "http://127.0.0.1:9", chain_id)
        assert told(admin_client.post(f"{STEPS}demo/", follow=True)) == [
            f"No node of chain 31337 answers at {urls}. Start it with `make node` and try again. Nothing was created."
        ]
    assert not Signer.objects.exists()


def test_a_demo_that_fails_half_way_creates_nothing(admin_client: Client, node: NodeServer) -> None:
    factories.relayer(identifier="demo", network="sepolia")
    page = admin_client.post(f"{STEPS}demo/", follow=True)
    assert told(page) == [
        "A relayer with the ID demo exists on another network. Delete it first. Nothing was created."
    ]
    assert not Signer.objects.filter(identifier="demo").exists()
