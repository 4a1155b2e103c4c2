"""Relayers in the admin: the list, pausing, checking, the status of nodes, and who may do what."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from chain.networks import networks
from chain.nodes import breakers
from notifications.models import Delivery, Notification
from relayer_service.amounts import decimal_text, rounded_text
from relayer_service.background.tasks import queue
from relayer_service.models import AuditEntry, Job
from relayers.console import formatting
from relayers.models import Relayer
from signers.backends import base
from signers.backends.aws_kms import BOTO3
from signers.models import Signer
from tests.notifications.admin_pages import confirm, rows, staff_who_may, told
from tests.relayer_service.jobs import run_jobs
from tests.relayers import factories
from tests.relayers.stand_in_node import StandInNode, serve
from tests.servers import free_port

pytestmark = pytest.mark.django_db

LIST = "/admin/relayers/relayer/"
URL = "https://node.example.com/v1/s3cret"
ADDRESS = f"{factories.ADDRESS[:-6]} {factories.ADDRESS[-6:]} Copy"
CHECKED = {"nonce": 7, "balance_text": "1500000000000000001"}


@pytest.fixture
def node() -> Iterator[StandInNode]:
    with serve(StandInNode()) as node:
        yield node


def page_of(relayer: Relayer, page: str = "change") -> str:
    return f"{LIST}{relayer.pk}/{page}/"


def select(action: str, *relayers: Relayer) -> dict[str, Any]:
    return {"action": action, "_selected_action": [relayer.pk for relayer in relayers]}


def found(client: Client, query: str) -> list[str]:
    return [row[1] for row in rows(client.get(f"{LIST}?{query}"))]


def fleet() -> None:
    """A relayer in each state, and in as many of the states after it as can be."""
    then = timezone.now() - timedelta(seconds=200)
    checked = CHECKED | {"checked_at": then}
    low = {"balance_text": "5", "balance_is_low": True}
    disabled = {"system_disabled": True, "disabled_reason_type": "NonceSyncFailed", "disabled_reason_details": "Why."}
    factories.relayer(identifier="active", **checked)
    factories.relayer(identifier="never-checked")
    factories.relayer(identifier="no-balance", checked_at=then, nonce=7)
    factories.relayer(identifier="no-nonce", checked_at=then, balance_text="5")
    factories.relayer(identifier="low", **checked | low)
    factories.relayer(identifier="paused", paused=True, **checked | low)
    factories.relayer(identifier="disabled", paused=True, **disabled)


def test_the_list_shows_what_matters(admin_client: Client) -> None:
    fleet()
    factories.relayer(identifier="own", network="my-chain", address="", balance_text=str(2**128 - 1))
    coins = "1.5 ETH"
    few, exact = "5 wei", "0.000000000000000005 ETH"
    created = [f"{relayer.created_at:%Y-%m-%d %H:%M} UTC" for relayer in Relayer.objects.order_by("-sequence")]
    page = admin_client.get(LIST)
    assert re.findall(r'class="amount" title="(.*?)"', page.content.decode()) == [
        *(f"{2**128 - 1} wei", exact, exact, exact, "1.500000000000000001 ETH")
    ]
    shown = rows(page)
    assert [row.pop() for row in shown] == created
    assert shown == [
        ["Relayer 1", "own", "no address", "my-chain", "unknown", "3.40282e38 wei", "never"],
        ["Relayer 1", "disabled", "disabled paused", "sepolia", ADDRESS, "unknown", "never"],
        ["Relayer 1", "paused", "paused low balance", "sepolia", ADDRESS, few, "3 minutes ago"],
        ["Relayer 1", "low", "low balance", "sepolia", ADDRESS, few, "3 minutes ago"],
        ["Relayer 1", "no-nonce", "unknown", "sepolia", ADDRESS, few, "3 minutes ago"],
        ["Relayer 1", "no-balance", "unknown", "sepolia", ADDRESS, "unknown", "3 minutes ago"],
        ["Relayer 1", "never-checked", "unknown", "sepolia", ADDRESS, "unknown", "never"],
        ["Relayer 1", "active", "active", "sepolia", ADDRESS, coins, "3 minutes ago"],
    ]


@pytest.mark.parametrize(
    ("amount", "decimals", "text"),
    [
        (0, 18, "0"),
        (1, 18, "0.000000000000000001"),
        (10**18, 18, "1"),
        (1_200_000_000_000_000_000, 18, "1.2"),
        (100 * 10**18, 18, "100"),
        (2**128 - 1, 18, "340282366920938463463.374607431768211455"),
        (1_050_000, 6, "1.05"),
        (120, 0, "120"),
    ],
)
def test_amounts_are_written_in_whole_coins_exactly(amount: int, decimals: int, text: str) -> None:
    assert decimal_text(amount, decimals) == text


@pytest.mark.parametrize(
    ("amount", "decimals", "text"),
    [
        (0, 18, "0"),
        (1, 18, "0.000000000000000001"),
        (999_999_999_999_999_999, 18, "0.999999"),
        (1_234_567_890_000_000, 18, "0.00123456"),
        (1_200_000_000_000_000_000, 18, "1.2"),
        (123_456_789 * 10**15, 18, "123,456"),
        (98_765_432_109, 6, "98,765.4"),
        (1_234_567_890, 0, "1,234,567,890"),
        (2**128 - 1, 18, "3.40282e20"),
    ],
)
def test_amounts_of_a_list_have_six_significant_digits(amount: int, decimals: int, text: str) -> None:
    assert rounded_text(amount, decimals, 6) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 ETH"), (1, "1 wei"), (999_999_999, "999,999,999 wei"), (10**9, "0.000000001 ETH")]
)
def test_tiny_amounts_of_a_list_are_in_wei(value: int, text: str) -> None:
    assert f">{text}<" in formatting.amount(value, networks()["sepolia"])


@pytest.mark.parametrize(
    ("query", "identifiers"),
    [
        ("state=active", ["active"]),
        ("state=unknown", ["no-nonce", "no-balance", "never-checked"]),
        ("state=low+balance", ["paused", "low"]),
        ("state=no+address", []),
        ("state=paused", ["disabled", "paused"]),
        ("state=disabled", ["disabled"]),
        ("network=sepolia&state=active", ["active"]),
        ("network=mainnet", []),
    ],
)
def test_the_list_is_filtered(admin_client: Client, query: str, identifiers: list[str]) -> None:
    fleet()
    assert found(admin_client, query) == identifiers


def test_networks_in_use_are_offered_and_filtered_by_several(admin_client: Client) -> None:
    for network in ("mainnet", "my-chain", "sepolia", "mainnet"):
        factories.relayer(identifier=f"{network}-{Relayer.objects.count()}", network=network)
    assert found(admin_client, "network=my-chain&network=sepolia") == ["sepolia-2", "my-chain-1"]
    page = admin_client.get(f"{LIST}?network=sepolia").content.decode()
    boxes = re.findall(r'<input type="checkbox"[^>]*name="network"[^>]*>', page)
    values = [re.findall(r'value="(.*?)"|\s(checked)(?=[\s>])', box) for box in boxes]
    assert values == [[("mainnet", "")], [("my-chain", "")], [("sepolia", ""), ("", "checked")]]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        *(("RELAYER-", 1), ("pay roll", 1), ("y ro", 1), ("0xF39f", 1), ("Fb92266", 1), ("0xf39F…b92266", 1)),
        *(("polia", 1), ("pay  roll", 0), ("pay%", 0)),
        # Too short for an index of parts: the start.
        *(("pa", 1), ("ay", 0), ("se", 1)),
    ],
)
def test_relayers_are_found_by_any_part_of_id_name_address_and_network(
    admin_client: Client, query: str, count: int
) -> None:
    factories.relayer(name="Pay Roll")
    assert len(found(admin_client, f"q={query}")) == count


@pytest.mark.parametrize(
    "lookup", ["custom_rpc_urls__startswith=1:", "signer__secrets__startswith=1:", "notification__url__contains=a"]
)
def test_the_list_cannot_be_filtered_by_what_it_does_not_show(admin_client: Client, lookup: str) -> None:
    factories.relayer()
    assert admin_client.get(f"{LIST}?{lookup}").status_code == 400


def test_the_list_makes_as_many_queries_for_many_relayers_as_for_few(admin_client: Client) -> None:
    for number in range(5):
        factories.relayer(identifier=f"few-{number}", notification=factories.notification(f"few-{number}"))
    admin_client.get(LIST)
    with CaptureQueriesContext(connection) as few:
        assert len(rows(admin_client.get(LIST))) == 5
    for number in range(95):
        factories.relayer(
            identifier=f"more-{number}",
            signer=factories.signer(f"more-{number}"),
            notification=factories.notification(f"more-{number}"),
        )
    with CaptureQueriesContext(connection) as many:
        assert len(rows(admin_client.get(LIST))) == 50
    assert len(many) == len(few)


@pytest.mark.parametrize(
    ("action", "word", "event", "skipped"),
    [
        ("pause_selected", "Paused", "relayer.paused", "already paused"),
        ("resume_selected", "Resumed", "relayer.resumed", "not paused"),
    ],
)
def test_many_relayers_are_paused_and_resumed_with_events(
    admin_client: Client, action: str, word: str, event: str, skipped: str
) -> None:
    paused = action == "pause_selected"
    hook = factories.notification()
    chosen = [factories.relayer(identifier=name, paused=not paused, notification=hook) for name in ("one", "two")]
    chosen.append(factories.relayer(identifier="so already", paused=paused, notification=hook))
    factories.relayer(identifier="not chosen", paused=not paused, notification=hook)
    page = confirm(admin_client, LIST, select(action, *chosen), reason="The vault is moved")
    assert told(page) == [f"{word}: 2 relayers. Skipped: 1 ({skipped})."]
    assert set(Relayer.objects.filter(paused=paused).values_list("identifier", flat=True)) == {
        "one",
        "two",
        "so already",
    }
    events = [(item.event, json.loads(bytes(item.body))["data"]["relayer_id"]) for item in Delivery.objects.all()]
    assert sorted(events) == [(event, "one"), (event, "two")]
    assert sorted(AuditEntry.objects.values_list("object_id", "actor", "reason")) == [
        ("one", "admin", "The vault is moved"),
        ("two", "admin", "The vault is moved"),
    ]


def test_many_relayers_are_checked_now(
    admin_client: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    later = timezone.now() + timedelta(minutes=1)
    chosen = [factories.relayer(identifier=name, due_at=later) for name in ("one", "two")]
    chosen.append(factories.relayer(identifier="in check", due_at=later, leased_until=later, lease=uuid.uuid4()))
    factories.relayer(identifier="not chosen", due_at=later)
    page = confirm(admin_client, LIST, select("check_selected_now", *chosen))
    assert told(page) == ["Started in the worker: Check 3 relayers now. View its progress."]
    with django_capture_on_commit_callbacks(execute=True):
        run_jobs()
    assert Job.objects.values("done", "skipped", "failed").get() == {"done": 2, "skipped": 1, "failed": 0}
    due = Relayer.objects.filter(health__due_at__lte=timezone.now()).values_list("identifier", flat=True)
    assert list(due) == ["one", "two"]
    assert [task.name for task in queue.pending()] == ["check_relayers_now"]


def test_one_relayer_is_checked_now_from_its_page(admin_client: Client) -> None:
    relayer = factories.relayer(due_at=timezone.now() + timedelta(minutes=1))
    assert f'action="{page_of(relayer, "check")}"' in admin_client.get(page_of(relayer)).content.decode()
    assert admin_client.get(page_of(relayer, "check")).status_code == 405
    page = admin_client.post(page_of(relayer, "check"), follow=True)
    assert told(page) == ["Queued for a check: 1 relayer."]
    assert Relayer.objects.filter(health__due_at__lte=timezone.now()).exists()


def facts(page: Any) -> dict[str, str]:
    """Return the facts of the status panel."""
    texts = {name: re.sub("<[^>]*>", " ", value) for name, value in page.context["facts"].items()}
    return {name: " ".join(text.split()) for name, text in texts.items()}


def nodes(page: Any) -> list[list[str]]:
    """Return the rows of the status panel, without latencies."""
    found = [[" ".join(re.sub("<[^>]*>", " ", cell).split()) for cell in row] for row in page.context["nodes"]["rows"]]
    return [[re.sub(r"^\d+ ms$", "N ms", cell) for cell in row] for row in found]


def test_the_status_asks_each_node(admin_client: Client, node: StandInNode) -> None:
    dead = f"http://127.0.0.1:{free_port()}/s3cret"
    off = node.url.replace("v1", "v2")
    urls = [{"url": node.url, "weight": 70}, {"url": dead, "weight": 30}, {"url": off, "weight": 0}]
    then = timezone.now() - timedelta(seconds=200)
    relayer = factories.relayer(network="hardhat", rpc_urls=urls, checked_at=then, **CHECKED)
    breakers.pause(dead, 60)
    page = admin_client.get(page_of(relayer, "status"))
    assert facts(page) == {
        "State": "active",
        "Nonce": "7",
        "Balance": "1.500000000000000001 ETH",
        "Last check": "3 minutes ago",
    }
    good, bad = (url.rpartition("/")[0].removesuffix("/v1") + "/***" for url in (node.url, dead))
    assert nodes(page) == [
        [good, "70", "ok", "N ms", "20,000,123"],
        [bad, "30", "failed circuit open connection failed", "-", "-"],
        [good, "0 (disabled)", "ok", "N ms", "20,000,123"],
    ]
    assert "s3cret" not in page.content.decode()


def test_the_status_says_how_old_a_balance_is_that_later_checks_could_not_read(admin_client: Client) -> None:
    now = timezone.now()
    relayer = factories.relayer(**CHECKED, balance_at=now - timedelta(hours=3, minutes=1), checked_at=now)
    shown = facts(admin_client.get(page_of(relayer, "status")))
    assert (shown["Balance"], shown["Balance read"]) == (
        "1.500000000000000001 ETH",
        "3 hours ago; later checks could not read it",
    )


NOT_ASKED = "The signer has not provided its address since it was last changed. Save the relayer to read it."


@pytest.mark.parametrize(
    ("signer_type", "last_error", "why"),
    [
        ("plain", "", NOT_ASKED),
        ("plain", "It is <b>down</b>.", "The signer failed: It is <b>down</b>."),
        (
            "provider_a_kms",
            "It is down.",
            f"The signer's type is not available: {BOTO3.missing()}",
        ),
    ],
)
def test_a_relayer_without_an_address_says_why(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, signer_type: str, last_error: str, why: str
) -> None:
    monkeypatch.setattr(base, "_is_importable", lambda module: False)
    signer = factories.signer()
    Signer.objects.update(type=signer_type, last_error=last_error)
    relayer = factories.relayer(address="", signer=signer, network="my-chain")
    assert f'title="{escape(why)}">unknown' in admin_client.get(LIST).content.decode()
    status = admin_client.get(page_of(relayer, "status"))
    assert facts(status)["No address"] == " ".join(re.sub("<[^>]*>", " ", why).split())
    assert escape(why) in status.content.decode()


def test_the_queries_of_the_list_do_not_grow_with_relayers_without_address(admin_client: Client) -> None:
    factories.relayer(address="", signer=factories.signer("signer-a"))
    admin_client.get(LIST)
    with CaptureQueriesContext(connection) as few:
        admin_client.get(LIST)
    for number in range(5):
        factories.relayer(identifier=f"more-{number}", address="", signer=factories.signer(f"signer-{number}"))
    with CaptureQueriesContext(connection) as many:
        admin_client.get(LIST)
    assert len(many) == len(few)


@pytest.mark.parametrize(
    ("network", "balance", "is_low", "shown"),
    [
        ("polygon", str(10**18), False, "1 POL, minimum 0.5 POL"),
        ("polygon", str(4 * 10**17), True, "0.4 POL, below the minimum of 0.5 POL"),
        ("my-chain", "7", True, "7 wei, below the minimum of 500000000000000000 wei"),
        ("polygon", "", False, "unknown, minimum 0.5 POL"),
    ],
)
def test_the_minimum_stands_beside_the_balance(
    admin_client: Client, network: str, balance: str, is_low: bool, shown: str
) -> None:
    values = {"balance_text": balance, "balance_is_low": is_low, "policies": {"min_balance": 5 * 10**17}}
    dead = [{"url": f"http://127.0.0.1:{free_port()}/", "weight": 100}]
    relayer = factories.relayer(network=network, rpc_urls=dead, **values)
    assert facts(admin_client.get(page_of(relayer, "status")))["Balance"] == shown


def test_the_status_names_a_node_of_another_chain(admin_client: Client, node: StandInNode) -> None:
    node.chain_id = 5
    relayer = factories.relayer(network="hardhat", rpc_urls=[{"url": node.url, "weight": 100}])
    ((_, _, health, _, head),) = nodes(admin_client.get(page_of(relayer, "status")))
    assert (health, head) == ("failed on chain 5 instead of 31337", "-")


def test_the_status_shows_why_a_relayer_is_disabled(admin_client: Client) -> None:
    relayer = factories.relayer(
        network="my-chain",
        system_disabled=True,
        disabled_reason_type="NonceSyncFailed",
        disabled_reason_details="<b>Why.</b>",
    )
    page = admin_client.get(page_of(relayer, "status"))
    assert page.context["facts"]["Reason"] == "NonceSyncFailed: <b>Why.</b>"
    assert "NonceSyncFailed: &lt;b&gt;Why.&lt;/b&gt;" in page.content.decode()
    assert (facts(page)["State"], facts(page)["Nonce"], facts(page)["Balance"]) == ("disabled", "unknown", "unknown")


def test_the_status_of_a_relayer_without_nodes_says_so(admin_client: Client) -> None:
    page = admin_client.get(page_of(factories.relayer(network="my-chain"), "status"))
    assert page.context["fault"] == "There are no nodes: neither the relayer nor its network has RPC URLs."


def test_the_status_reports_urls_that_cannot_be_decrypted(admin_client: Client, settings: Settings) -> None:
    relayer = factories.relayer(rpc_urls=[{"url": URL, "weight": 100}])
    settings.ENCRYPTION_KEYS = {"2": bytes(range(50, 82))}
    page = admin_client.get(page_of(relayer, "status"))
    assert page.context["fault"] == "The RPC URLs cannot be decrypted with the configured encryption keys."


def test_the_page_of_a_relayer_does_not_wait_for_its_nodes(admin_client: Client, node: StandInNode) -> None:
    relayer = factories.relayer(network="hardhat", rpc_urls=[{"url": node.url, "weight": 100}])
    text = admin_client.get(page_of(relayer)).content.decode()
    assert f'data-status-url="{page_of(relayer, "status")}"' in text
    assert node.asked == []


def test_there_is_no_status_of_what_does_not_exist(admin_client: Client) -> None:
    assert admin_client.get(f"{LIST}1/status/").status_code == 404
    assert admin_client.post(f"{LIST}1/check/").status_code == 404


def test_staff_who_may_only_look_see_no_secret_and_no_button(client: Client, node: StandInNode) -> None:
    viewer = staff_who_may(client, "view_relayer")
    relayer = factories.relayer(
        network="hardhat",
        rpc_urls=[{"url": node.url, "weight": 70}],
        policies={"min_balance": 5, "private_transactions": False, "whitelist_receivers": [factories.ADDRESS]},
        notification=factories.notification(),
    )
    text = viewer.get(page_of(relayer)).content.decode()
    shown = node.url.replace("/v1/s3cret", "/***")
    for part in (
        f"{shown} (weight 70)",
        "min_balance: 5",
        "private_transactions: no",
        f'title="{factories.ADDRESS}"',
        "hook-1",
    ):
        assert part in text
    assert "s3cret" not in text
    assert not re.search(r'name="(name|rpc_urls-\d-url|policy_min_balance|_save|action)"', text)
    assert page_of(relayer, "check") not in text
    assert 'name="action"' not in viewer.get(LIST).content.decode()
    assert nodes(viewer.get(page_of(relayer, "status")))[0][0] == shown


def test_staff_who_may_only_view_change_nothing_and_call_no_node(client: Client, node: StandInNode) -> None:
    viewer = staff_who_may(client, "view_relayer")
    later = timezone.now() + timedelta(minutes=1)
    relayer = factories.relayer(network="hardhat", due_at=later, rpc_urls=[{"url": node.url, "weight": 70}])
    form = {"name": "theirs", "rpc_urls-TOTAL_FORMS": "1", "rpc_urls-INITIAL_FORMS": "0", "rpc_urls-0-url": node.url}
    assert viewer.post(page_of(relayer), form).status_code == 403
    assert viewer.post(f"{LIST}add/", form).status_code == 403
    assert viewer.post(page_of(relayer, "check")).status_code == 403
    viewer.post(LIST, select("pause_selected", relayer))
    assert Relayer.objects.values("name", "paused", "health__due_at").get() == {
        "name": "Relayer 1",
        "paused": False,
        "health__due_at": later,
    }
    assert node.asked == []


def test_other_staff_see_nothing(client: Client, node: StandInNode) -> None:
    other = staff_who_may(client, "view_signer")
    relayer = factories.relayer(network="hardhat", rpc_urls=[{"url": node.url, "weight": 70}])
    for path in (LIST, page_of(relayer), page_of(relayer, "status")):
        assert other.get(path).status_code == 403
    assert node.asked == []
    assert "Relayers" not in other.get("/admin/").content.decode()


def test_a_relayer_is_deleted(admin_client: Client) -> None:
    relayer = factories.relayer(notification=factories.notification())
    admin_client.post(page_of(relayer, "delete"), {"post": "yes"})
    assert not Relayer.objects.exists()
    assert (Signer.objects.count(), Notification.objects.count()) == (1, 1)


def test_a_signer_that_a_relayer_uses_names_it_and_is_not_deleted(admin_client: Client) -> None:
    relayer = factories.relayer()
    url = f"/admin/signers/signer/{relayer.signer.pk}"
    assert "relayer-1" in admin_client.get(f"{url}/change/").content.decode()
    page = admin_client.post(f"{url}/delete/", {"post": "yes"})
    (kept,) = page.context["protected"]
    assert "relayer-1" in kept
    assert Signer.objects.exists()


def test_a_notification_that_a_relayer_uses_is_not_deleted(admin_client: Client) -> None:
    relayer = factories.relayer(notification=factories.notification())
    assert relayer.notification
    page = admin_client.post(f"/admin/notifications/notification/{relayer.notification.pk}/delete/", {"post": "yes"})
    (text,) = page.context["protected"]
    assert re.sub("<[^>]*>", "", text) == (
        "hook-1 is used by 1 relayer: relayer-1. To delete the webhook, change or delete the relayer first: "
        "list the relayer."
    )
    assert Notification.objects.exists()
