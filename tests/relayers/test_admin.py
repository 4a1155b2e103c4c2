"""Relayers in the admin: the list, pausing, checking, the status of nodes, and who may do what."""

from __future__ import annotations

import json
import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape, strip_tags
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from chain.networks import networks
from chain.nodes import breakers
from notifications.models import Delivery, Notification
from relayer_service.amounts import decimal_text, rounded_text
from relayer_service.background.tasks import queue
from relayer_service.database.clock import database_now
from relayer_service.models import AuditEntry, Job
from relayers.console import formatting
from relayers.health.probes import missing_address_reason
from relayers.models import Relayer, RelayerHealth
from relayers.models.tags import save_tags
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
    few, exact = "5 wei", "5 wei"
    created = [f"{relayer.created_at:%Y-%m-%d %H:%M} UTC" for relayer in Relayer.objects.order_by("-sequence")]
    page = admin_client.get(LIST)
    assert re.findall(r'class="amount" title="(.*?)"', page.content.decode()) == [
        *(f"{2**128 - 1} wei", exact, exact, exact, "1.500000000000000001 ETH")
    ]
    shown = rows(page)
    assert [row.pop() for row in shown] == created
    assert shown == [
        ["Relayer 1", "own", "no address", "my-chain", "signer-1", "unknown", "3.40282e38 wei", "-", "never"],
        ["Relayer 1", "disabled", "disabled paused", "sepolia", "signer-1", ADDRESS, "unknown", "-", "never"],
        ["Relayer 1", "paused", "paused low balance", "sepolia", "signer-1", ADDRESS, few, "-", "3 minutes ago"],
        ["Relayer 1", "low", "low balance", "sepolia", "signer-1", ADDRESS, few, "-", "3 minutes ago"],
        ["Relayer 1", "no-nonce", "unknown", "sepolia", "signer-1", ADDRESS, few, "-", "3 minutes ago"],
        ["Relayer 1", "no-balance", "unknown", "sepolia", "signer-1", ADDRESS, "unknown", "-", "3 minutes ago"],
        ["Relayer 1", "never-checked", "unknown", "sepolia", "signer-1", ADDRESS, "unknown", "-", "never"],
        ["Relayer 1", "active", "active", "sepolia", "signer-1", ADDRESS, coins, "-", "3 minutes ago"],
    ]


@pytest.mark.parametrize(
    ("amount", "decimals", "exact", "rounded", "up"),
    [
        (0, 18, "0", "0", "0"),
        (1, 18, "0.000000000000000001", "0.000000000000000001", "0.000000000000000001"),
        (999_999_999_999_999_999, 18, "0.999999999999999999", "0.999999", "1"),
        (1_234_567_890_000_000, 18, "0.00123456789", "0.00123456", "0.00123457"),
        (1_200_000_000_000_000_000, 18, "1.2", "1.2", "1.2"),
        (123_456_789 * 10**15, 18, "123456.789", "123,456", "123,457"),
        (98_765_432_109, 6, "98765.432109", "98,765.4", "98,765.5"),
        (1_234_567_890, 0, "1234567890", "1,234,567,890", "1,234,567,890"),
        (2**128 - 1, 18, "340282366920938463463.374607431768211455", "3.40282e20", "3.40283e20"),
    ],
)
def test_amounts_are_exact_and_in_lists_have_six_digits(
    amount: int, decimals: int, exact: str, rounded: str, up: str
) -> None:
    shown = (
        decimal_text(amount, decimals),
        rounded_text(amount, decimals, 6),
        rounded_text(amount, decimals, 6, up=True),
    )
    assert shown == (exact, rounded, up)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 ETH"), (1, "1 wei"), (999_999_999, "999,999,999 wei"), (10**9, "0.000000001 ETH")]
)
def test_tiny_amounts_of_a_list_are_in_wei(value: int, text: str) -> None:
    assert f">{text}<" in formatting.amount(value, networks()["sepolia"])


def test_the_list_is_filtered_by_state_and_by_networks_in_use(admin_client: Client) -> None:
    fleet()
    factories.relayer(identifier="own", network="my-chain", **CHECKED)
    expected = {
        "state=active": ["active"],
        "state=unknown": ["own", "no-nonce", "no-balance", "never-checked"],
        "state=low+balance": ["paused", "low"],
        "state=no+address": [],
        "state=paused": ["disabled", "paused"],
        "state=disabled": ["disabled"],
        "network=sepolia&state=active": ["active"],
        "network=my-chain&network=mainnet": ["own"],
    }
    assert {query: found(admin_client, query) for query in expected} == expected
    page = admin_client.get(f"{LIST}?network=sepolia").content.decode()
    boxes = re.findall(r'<input type="checkbox"[^>]*name="network"[^>]*>', page)
    values = [re.findall(r'value="(.*?)"|\s(checked)(?=[\s>])', box) for box in boxes]
    assert values == [[("my-chain", "")], [("sepolia", ""), ("", "checked")]]


def test_relayers_are_found_by_any_part_of_what_the_list_shows_alone(admin_client: Client) -> None:
    factories.relayer(name="Pay Roll")
    hits = ["RELAYER-", "y ro", "0xF39f", "Fb92266", "0xf39F…b92266", "polia"]
    # Two characters are too short for an index of parts: they are found at the start.
    expected = dict.fromkeys([*hits, "pa", "se"], 1) | dict.fromkeys(["pay  roll", "pay%", "ay"], 0)
    assert {query: len(found(admin_client, f"q={query}")) for query in expected} == expected
    for hidden in (
        "custom_rpc_urls__startswith=1:",
        "signer__secrets__startswith=1:",
        "notification__url__contains=a",
    ):
        assert admin_client.get(f"{LIST}?{hidden}").status_code == 400


def test_the_list_makes_as_many_queries_for_many_relayers_as_for_few(admin_client: Client) -> None:
    def add(first: int, last: int) -> int:
        for number in range(first, last):
            name = f"relayer-{number}"
            related = {"signer": factories.signer(name), "notification": factories.notification(name)}
            factories.relayer(identifier=name, address="" if number % 2 else factories.ADDRESS, **related)
        admin_client.get(LIST)
        with CaptureQueriesContext(connection) as queries:
            assert len(rows(admin_client.get(LIST))) == min(last, 50)
        return len(queries)

    assert add(0, 4) == add(4, 60)


def test_many_relayers_are_resumed_with_events(admin_client: Client) -> None:
    hook = factories.notification()
    chosen = [factories.relayer(identifier=name, paused=True, notification=hook) for name in ("one", "two")]
    chosen.append(factories.relayer(identifier="so already", notification=hook))
    factories.relayer(identifier="not chosen", paused=True, notification=hook)
    page = confirm(admin_client, LIST, select("resume_selected", *chosen), reason="The vault is moved")
    assert told(page) == ["Resumed: 2 relayers. Skipped: 1 (not paused)."]
    assert Relayer.objects.get(paused=True).identifier == "not chosen"
    events = [(item.event, json.loads(bytes(item.body))["data"]["relayer_id"]) for item in Delivery.objects.all()]
    assert sorted(events) == [("relayer.resumed", "one"), ("relayer.resumed", "two")]
    entries = AuditEntry.objects.order_by("object_id").values_list("object_id", "actor", "reason")
    assert list(entries) == [(name, "admin", "The vault is moved") for name in ("one", "two")]


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
    due = Relayer.objects.filter(health__due_at__lte=database_now()).values_list("identifier", flat=True)
    assert list(due) == ["one", "two"]
    assert [task.name for task in queue.pending()] == ["check_relayers_now"]


def test_a_relayer_is_checked_now_from_its_page_which_waits_for_no_node(
    admin_client: Client, node: StandInNode
) -> None:
    urls = [{"url": node.url, "weight": 100}]
    relayer = factories.relayer(network="hardhat", rpc_urls=urls, due_at=timezone.now() + timedelta(minutes=1))
    text = admin_client.get(page_of(relayer)).content.decode()
    assert f'action="{page_of(relayer, "check")}"' in text
    assert f'data-status-url="{page_of(relayer, "status")}"' in text
    assert admin_client.get(page_of(relayer, "check")).status_code == 405
    page = admin_client.post(page_of(relayer, "check"), follow=True)
    assert told(page) == ["Queued for a check: 1 relayer."]
    assert Relayer.objects.filter(health__due_at__lte=database_now()).exists()
    assert node.asked == []
    assert admin_client.get(f"{LIST}999/status/").status_code == 404
    assert admin_client.post(f"{LIST}999/check/").status_code == 404


def facts(page: Any) -> dict[str, str]:
    """Return the facts of the status panel."""
    texts = {name: re.sub("<[^>]*>", " ", value) for name, value in page.context["facts"].items()}
    return {name: " ".join(text.split()) for name, text in texts.items()}


def nodes(page: Any) -> list[list[str]]:
    """Return the rows of the status panel."""
    return [[" ".join(re.sub("<[^>]*>", " ", cell).split()) for cell in row] for row in page.context["nodes"]["rows"]]


def test_the_status_asks_each_node(admin_client: Client, node: StandInNode) -> None:
    dead = f"http://127.0.0.1:{free_port()}/s3cret"
    off = node.url.replace("v1", "v2")
    then = timezone.now() - timedelta(seconds=200)
    with serve(StandInNode(chain_id=5)) as elsewhere:
        weights = {node.url: 70, dead: 30, off: 0, elsewhere.url: 10}
        urls = [{"url": url, "weight": weight} for url, weight in weights.items()]
        relayer = factories.relayer(network="hardhat", rpc_urls=urls, checked_at=then, **CHECKED)
        breakers.pause(dead, 60)
        page = admin_client.get(page_of(relayer, "status"))
    assert facts(page) == {
        "State": "active",
        "Nonce": "7",
        "Balance": "1.5 ETH",
        "Last check": "3 minutes ago",
    }
    good, bad, other = (f"{url.rpartition('/')[0].removesuffix('/v1')}/***" for url in (node.url, dead, elsewhere.url))
    assert [[*row[:3], re.sub(r"^\d+ ms$", "N ms", row[3]), row[4]] for row in nodes(page)] == [
        [good, "70", "ok", "N ms", "20,000,123"],
        [bad, "30", "failed circuit open connection failed", "-", "-"],
        [good, "0 (disabled)", "ok", "N ms", "20,000,123"],
        [other, "10", "failed on chain 5 instead of 31337", "-", "-"],
    ]
    assert "s3cret" not in page.content.decode()


NOT_ASKED = "The signer has not provided its address since it was last changed. Save the relayer to read it."


def test_a_relayer_without_an_address_says_why(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_is_importable", lambda module: False)
    signer = factories.signer()
    reasons = {
        ("plain", ""): NOT_ASKED,
        ("provider_a_kms", "It is down."): f"The signer's type is not available: {BOTO3.missing()}",
        ("plain", "It is <b>down</b>."): "The signer failed: It is <b>down</b>.",
    }
    for (signer.type, signer.last_error), why in reasons.items():
        assert missing_address_reason(signer) == why
    signer.save()
    relayer = factories.relayer(address="", signer=signer, network="my-chain")
    assert f'title="{escape(why)}">unknown' in admin_client.get(LIST).content.decode()
    status = admin_client.get(page_of(relayer, "status"))
    assert facts(status)["No address"] == "The signer failed: It is down ."
    assert escape(why) in status.content.decode()


@pytest.mark.parametrize(
    ("network", "balance", "is_low", "shown"),
    [
        ("polygon", str(10**18), False, "1 POL, minimum 0.5 POL"),
        ("polygon", str(4 * 10**17), True, "0.4 POL, below the minimum of 0.5 POL"),
        ("my-chain", "7", True, "7 wei, below the minimum of 5.00000e17 wei"),
        ("polygon", "", False, "unknown, minimum 0.5 POL"),
    ],
)
def test_the_minimum_stands_beside_the_balance(network: str, balance: str, is_low: bool, shown: str) -> None:
    values = {"balance_text": balance, "balance_is_low": is_low, "policies": {"min_balance": 5 * 10**17}}
    assert strip_tags(formatting.balance_and_limit(factories.relayer(network=network, **values))) == shown


def test_the_page_begins_with_what_identifies_a_relayer_and_asks_to_fund_an_empty_account(
    admin_client: Client,
) -> None:
    relayer = factories.relayer(name="Payroll", network="my-chain", balance_text="1")
    save_tags({relayer.pk: ["payroll", "eu"]})
    page = admin_client.get(page_of(relayer))
    shown = {name: " ".join(strip_tags(value).split()) for name, value in page.context["identity"].items()}
    assert shown == {
        "Name": "Payroll",
        "Network": "my-chain",
        "Address": f"{factories.ADDRESS} Copy",
        "Signer": relayer.signer.identifier,
        "Tags": "eu, payroll",
    }
    assert page.context["state"] == formatting.badges(relayer)
    for balance, is_empty in (("1", False), ("0", True), ("", False)):
        RelayerHealth.objects.update(balance_text=balance)
        assert admin_client.get(page_of(relayer, "status")).context["lacks_coins"] is is_empty
        assert (f'id="fund"{" open" if is_empty else ""}>') in admin_client.get(page_of(relayer)).text


@pytest.mark.parametrize(
    ("columns", "is_shown"),
    [
        ({"balance_text": "0"}, True),
        ({"balance_text": "1"}, False),
        ({"balance_text": ""}, False),
        ({"balance_text": "0", "balance_is_low": True}, False),
    ],
)
def test_the_list_shows_which_relayers_have_no_coins(
    admin_client: Client, columns: dict[str, Any], is_shown: bool
) -> None:
    factories.relayer(**columns)
    assert ("no coins" in admin_client.get(LIST).text) is is_shown


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


def test_the_status_says_why_no_node_can_be_asked_and_how_old_a_balance_is(
    admin_client: Client, settings: Settings
) -> None:
    now = timezone.now()
    aged = {"balance_text": "7", "balance_at": now - timedelta(hours=3, minutes=1), "checked_at": now}
    page = admin_client.get(page_of(factories.relayer(network="my-chain", **aged), "status"))
    read = {name: facts(page)[name] for name in ("Balance", "Balance read")}
    assert read == {"Balance": "7 wei", "Balance read": "3 hours ago; later checks could not read it"}
    assert page.context["fault"] == "There are no nodes: neither the relayer nor its network has RPC URLs."
    relayer = factories.relayer(identifier="sealed", rpc_urls=[{"url": URL, "weight": 100}])
    settings.ENCRYPTION_KEYS = {"2": bytes(range(50, 82))}
    page = admin_client.get(page_of(relayer, "status"))
    assert page.context["fault"] == "The RPC URLs cannot be decrypted with the configured encryption keys."


def test_staff_who_may_only_look_see_no_secret_and_no_button(client: Client, node: StandInNode) -> None:
    viewer = staff_who_may(client, "view_relayer")
    relayer = factories.relayer(
        network="hardhat",
        rpc_urls=[{"url": node.url, "weight": 70}],
        policies={
            "gas_price_cap": 30 * 10**9,
            "min_balance": 5 * 10**17,
            "private_transactions": False,
            "whitelist_receivers": [factories.ADDRESS],
        },
        notification=factories.notification(),
    )
    text = viewer.get(page_of(relayer)).content.decode()
    shown = node.url.replace("/v1/s3cret", "/***")
    for part in (
        f"{shown} (weight 70)",
        "Gas price cap: 30 gwei",
        "Minimum balance: 0.5 ETH",
        "Private transactions: no",
        f'title="{factories.ADDRESS}"',
        "hook-1",
    ):
        assert part in text
    assert "s3cret" not in text
    assert not re.search(r'name="(name|rpc_urls-\d-url|policy_min_balance|_save|action)"', text)
    assert page_of(relayer, "check") not in text
    assert 'name="action"' not in viewer.get(LIST).content.decode()
    assert nodes(viewer.get(page_of(relayer, "status")))[0][0] == shown


def test_what_a_relayer_uses_is_deleted_neither_before_nor_with_it(admin_client: Client) -> None:
    relayer = factories.relayer(notification=factories.notification())
    signer = f"/admin/signers/signer/{relayer.signer.pk}"
    assert "relayer-1" in admin_client.get(f"{signer}/change/").content.decode()
    (kept,) = admin_client.post(f"{signer}/delete/", {"post": "yes"}).context["protected"]
    assert "relayer-1" in kept
    hook = Notification.objects.get()
    page = admin_client.post(f"/admin/notifications/notification/{hook.pk}/delete/", {"post": "yes"})
    (text,) = page.context["protected"]
    assert re.sub("<[^>]*>", "", text) == (
        "hook-1 is used by 1 relayer: relayer-1. To delete the webhook, change or delete the relayer first: "
        "list the relayer."
    )
    admin_client.post(page_of(relayer, "delete"), {"post": "yes"})
    assert (Relayer.objects.count(), Signer.objects.count(), Notification.objects.count()) == (0, 1, 1)
