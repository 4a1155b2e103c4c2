"""What a token requested, on its page and on that for a leaked one."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from relayer_service.models import Job
from rpc.models import FeeToken
from spending.erc20 import FUNCTIONS
from tests.notifications.admin_pages import told
from tests.relayers import factories
from tests.transactions import factories as lanes
from tokens.models import AccessToken
from tokens.writes import issue, reissue, rotate
from transactions.console import token_activity
from transactions.models import Lane, Transaction

LIST = "/admin/tokens/accesstoken/"
CONTRACT, OTHER = "0x5FbDB2315678afecb367f032d93F642f64180aa3", "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
SELECTORS = {name: selector for selector, (name, _) in FUNCTIONS.items()}


@pytest.fixture(autouse=True)
def enabled(settings: Any) -> None:
    settings.EXTENSIONS = ["transactions"]


@pytest.fixture
def lane(db: None) -> Lane:
    return lanes.lane(factories.relayer())


def call(function: str, amount: int) -> bytes:
    return SELECTORS[function] + bytes.fromhex(OTHER[2:]).rjust(32, b"\0") + amount.to_bytes(32)


def requested(lane: Lane, token: AccessToken, **values: Any) -> Transaction:
    return lanes.transaction(lane, requester=token.family_key, requested_by=str(token), **values)


def mined(lane: Lane, token: AccessToken, **values: Any) -> Transaction:
    row = requested(lane, token, nonce=Transaction.objects.count(), status="submitted", **values)
    sent = lanes.attempt(row)
    receipt = {"mined_attempt": sent, "gas_used": 21_000, "effective_gas_price_text": "2"}
    Transaction.objects.filter(pk=row.pk).update(status="mined", **({"succeeded": True} | receipt))
    return row


@pytest.mark.both_engines
def test_totals_are_exact_by_asset(
    admin_client: Client, admin_user: User, lane: Lane, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    FeeToken.objects.create(network="sepolia", symbol="USDC", address=CONTRACT, decimals=6)
    token, _ = issue(name="ci", user=admin_user)
    mined(lane, token, value_text=str(10**18 + 1))
    mined(lane, token, to=CONTRACT, data=call("transfer", 2**255))
    mined(lane, token, to=CONTRACT, data=call("transfer", 2**255))
    mined(lane, token, to=CONTRACT, data=call("approve", 7))
    mined(lane, token, to=CONTRACT, data=call("approve", 5))
    mined(lane, token, to=OTHER, data=call("approve", 2**256 - 1))
    requested(lane, token, to=OTHER, data=call("transfer", 5_000_000))
    # Another encoding may mean something else.
    mined(lane, token, to=CONTRACT, data=call("transfer", 9) + b"\0")
    requested(lane, token, value_text=str(3 * 10**15))
    requested(lane, token, value_text="11", status="canceled")
    lanes.transaction(lane, value_text="100", requester="other")
    page = f"{LIST}{token.pk}/change/"
    with django_assert_max_num_queries(35):
        shown = admin_client.get(page).context["token_transactions"]
    counts = {name: value for name, value in shown["facts"].items() if value != "0"}
    assert list(counts) == ["Pending", "Mined", "Canceled"]
    assert f"?token={token.key}&amp;kind=all&amp;status=mined" in counts["Mined"]
    rows = [[re.sub("<[^>]*>", "", cell) for cell in row] for row in shown["totals"].rows]
    assert rows == [
        ["ETH", "sepolia", "3", "1.000000000000000001 ETH", "0.003 ETH"],
        ["Gas (ETH)", "sepolia", "7", "294000 wei", "0 ETH"],
        ["USDC 0x5FbD…180aa3", "sepolia", "2", f"{2**256 // 10**6}.{2**256 % 10**6} USDC", "0 USDC"],
        ["unverified token 0x7099…dc79C8", "sepolia", "1", "0 units", "5,000,000 units"],
        ["Largest allowance of USDC 0x5FbD…180aa3", "sepolia", "2", "0.000007 USDC", "0 USDC"],
        ["Largest allowance of unverified token 0x7099…dc79C8", "sepolia", "1", "unlimited", "0 units"],
    ]


def test_the_page_of_a_leaked_token_lists_what_was_requested_since(
    admin_client: Client, admin_user: User, lane: Lane
) -> None:
    token, _ = issue(name="ci", user=admin_user)
    now = timezone.now()
    requested(lane, token, created_at=now - timedelta(days=2))
    new = requested(lane, token, to=CONTRACT, data=call("approve", 7))
    shown = admin_client.get(f"{LIST}{token.pk}/leaked/").context["token_transactions"]
    ((link, *cells),) = shown["sent"].rows
    assert f"/admin/transactions/transaction/{new.pk}/change/" in link
    assert cells[1] == str(token)
    words = "Approve spending of 7 units of an unverified token by 0x7099…dc79C8"
    assert re.sub("<[^>]*>", "", cells[-1]) == words
    since = f"{now - timedelta(days=3):%Y-%m-%dT%H:%M}"
    page = admin_client.get(f"{LIST}{token.pk}/leaked/", {"since": since})
    assert len(page.context["token_transactions"]["sent"].rows) == 2


@pytest.mark.both_engines
@pytest.mark.parametrize(("query", "count"), [("", 3), ("?only", 2)])
def test_pending_transactions_of_a_leaked_token_are_canceled_in_a_job(
    client: Client,
    admin_client: Client,
    admin_user: User,
    lane: Lane,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    count: int,
) -> None:
    first, _ = issue(name="ci", user=admin_user)
    leaked = rotate(first.pk).new
    stolen = rotate(leaked.pk).new
    requested(lane, first)
    # By a process of the last release.
    by_text = lanes.transaction(lane, requester="", requested_by=str(leaked))
    rows = [by_text, requested(lane, leaked), requested(lane, stolen)][:count]
    mined(lane, leaked)
    lanes.transaction(lane, requester="", requested_by=f"Top-up of relayer {leaked}")
    AccessToken.objects.filter(pk=leaked.pk).disable()
    requested(lane, reissue(leaked.pk).new)
    url = f"{LIST}{leaked.pk}/cancel_pending/{query}"
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.set(
        Permission.objects.filter(codename__in=["view_accesstoken", "change_accesstoken", "view_transaction"])
    )
    client.force_login(viewer)
    assert client.post(url).status_code == 403
    asked = admin_client.get(url)
    assert [str(row[0]).partition("/change/")[0].rpartition("/")[2] for row in asked.context["table"].rows] == [
        str(row.pk) for row in rows
    ]
    started = admin_client.post(url, asked.context["hidden"] | {"reason": "Leaked."})
    assert started["Location"] == f"{LIST}{leaked.pk}/leaked/"
    job = Job.objects.get()
    assert (job.kind, job.total, job.reason) == ("cancel_transactions", count, "Leaked.")
    monkeypatch.setattr(token_activity, "MAX_LISTED", 1)
    assert told(admin_client.get(url))[-1] == "At most 1 are canceled at once: repeat this when the job has ended."
