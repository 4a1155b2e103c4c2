"""The overview: what needs attention first, then counts and charts, to those who may see them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from notifications.delivery import counts
from notifications.models import Delivery, Notification
from relayer_service.models import PeriodicRun
from relayers.models import Relayer
from rpc import counters
from tests.notifications.admin_pages import staff_who_may
from tests.notifications.clock import NOON, Clock, clock
from tests.relayer_service.admin.overview_pages import attention, links, part, parts, rows, text
from tests.relayers import factories as relayer_factories
from tests.rpc import factories as token_factories
from tokens.models import AccessToken
from tokens.writes import issue

__all__ = ["clock"]

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
CHECKED = {"checked_at": NOON, "nonce": 7, "balance_text": "5", "due_at": NOON}
MAX_QUERIES = 20


@pytest.fixture
def staff(client: Client, clock: Clock) -> Client:
    """Somebody who may view everything, and is no superuser."""
    beat()
    may_view = Permission.objects.filter(codename__startswith="view_").values_list("codename", flat=True)
    return staff_who_may(client, *may_view)


def beat() -> None:
    """Write a heartbeat of now by the clock of the database, which no test moves."""
    now = datetime.now(UTC)
    PeriodicRun.objects.update_or_create(
        name="heartbeat", defaults={"slot": 1, "started_at": now, "finished_at": now, "seconds": 0.01}
    )


def trouble(first: int = 0, last: int = 1) -> None:
    """Add something of every kind that needs attention, some times."""
    disabled = {"system_disabled": True, "disabled_reason_type": "NonceSyncFailed", "disabled_reason_details": "Why."}
    low = {"balance_is_low": True, "policies": {"min_balance": 5 * 10**17}}
    owner = User.objects.get_or_create(username="ben")[0]
    for number in range(first, last):
        relayer_factories.relayer(identifier=f"off-{number}", name="Off", **CHECKED | disabled)
        relayer_factories.relayer(identifier=f"dry-{number}", name="Dry", **CHECKED | low)
        relayer_factories.relayer(identifier=f"new-{number}", name="New", address="", due_at=NOON)
        relayer_factories.relayer(identifier=f"shaky-{number}", name="Shaky", failed_checks=1, **CHECKED)
        slow = Notification.objects.create(
            identifier=f"slow-{number}", url="https://a.example.com", failing_since=NOON - HOUR
        )
        error = "The target did not respond in time."
        Delivery.objects.create(notification=slow, event="relayer.paused", body=b"{}", due_at=NOON + HOUR, error=error)
        Notification.objects.create(identifier=f"gone-{number}", url="https://b.example.com", gone_at=NOON - 2 * HOUR)
        addresses = (f"0x{digit}{number:039}" for digit in (1, 2, 3))
        for (symbol, values), address in zip(PRICES.items(), addresses, strict=True):
            token_factories.fee_token(symbol=f"{symbol}{number}", address=address, **values)
        issue(name=f"Report {number}", user=owner, expires_at=NOON + 3 * DAY)
    Relayer.objects.update(created_at=NOON - DAY)
    if last == 1:
        AccessToken.objects.update(key="0123456789ab")


PRICES: dict[str, dict[str, Any]] = {
    "FAILED": {"rated_at": NOON - HOUR, "rate_error": "No source has a price."},
    "STALE": {"rated_at": NOON - HOUR},
    "NEVER": {"rated_at": None},
}
NEVER_ASKED = "The signer has not provided its address since it was last changed. Save the relayer to read it."
GONE = "It returned 410 Gone. To resume deliveries, change its URL or replay a delivery."
HOUR_AGO = "Since 2026-01-01 11:00 UTC, for 1 hour"
SUBJECTS = "the service and its worker, relayers, webhook targets, fee tokens, access tokens"


def test_where_nothing_is_wrong_all_is_well_with_what_was_checked(staff: Client) -> None:
    relayer_factories.relayer(**CHECKED)
    assert attention(staff) == ["Nothing needs attention."]
    assert text(part(staff, "Checked")) == f"Checked at 2026-01-01 12:00:00 UTC: {SUBJECTS}."


def test_what_needs_attention_is_named_with_a_reason_and_since_when(staff: Client) -> None:
    trouble()
    assert attention(staff) == [
        "Disabled relayers 1",
        "Off (off-0) on sepolia Why.",
        "Relayers with a low balance 1",
        "Dry (dry-0) on sepolia Its balance is 0.000000000000000005 ETH, below the minimum of 0.5 ETH.",
        "Relayers without an address 1",
        f"New (new-0) on sepolia {NEVER_ASKED} Since 2025-12-31 12:00 UTC, for 1 day",
        "Relayers with failing nodes 1",
        "Shaky (shaky-0) on sepolia The last check failed on every node; after 2 failures in a row it is disabled.",
        "Failing webhook targets 1",
        f"slow-0 The target did not respond in time. {HOUR_AGO}",
        "Webhook targets that are gone 1",
        f"gone-0 {GONE} Since 2026-01-01 10:00 UTC, for 2 hours",
        "Fee tokens whose price cannot be read 1",
        f"FAILED0 on hardhat No source has a price. {HOUR_AGO}",
        "Fee tokens whose price is stale 1",
        f"STALE0 on hardhat The worker has not read its price for several minutes. {HOUR_AGO}",
        "Fee tokens whose price was never read 1",
        "NEVER0 on hardhat The worker reads prices every minute, but has not read this one yet.",
        "Access tokens that expire within 14 days 1",
        "Report 0 (rms_0123456789ab_…) Expires on 2026-01-04 12:00 UTC, in 3 days; never used.",
    ]


def test_each_item_links_to_the_page_that_fixes_it_and_each_group_to_its_list(staff: Client) -> None:
    trouble()
    found = links(part(staff, "Needs attention"))
    assert len(found) == 20
    for name, url in found.items():
        page = staff.get(url)
        assert page.status_code == 200, name
        # A list is narrowed to the one row that has it, and a page is that of the row.
        changelist = page.context.get("cl")
        assert changelist is None or changelist.result_count == 1, name
    assert found["Off (off-0) on sepolia"] == f"/admin/relayers/relayer/{Relayer.objects.get(name='Off').pk}/change/"


def test_ten_of_a_kind_are_named_and_the_others_counted(staff: Client) -> None:
    trouble(0, 12)
    found = attention(staff)
    assert len(found) == 10 * (1 + 10 + 1)
    assert found[:12] == [
        "Disabled relayers 12",
        *(f"Off (off-{number}) on sepolia Why." for number in range(10)),
        "and 2 more",
    ]


def test_a_service_without_a_worker_reports_it_and_the_late_work(staff: Client, clock: Clock) -> None:
    target = Notification.objects.create(identifier="hook", url="https://a.example.com")
    relayer_factories.relayer(**CHECKED)
    Delivery.objects.create(notification=target, event="relayer.paused", body=b"{}", due_at=NOON)
    PeriodicRun.objects.update(started_at=NOON, finished_at=NOON)
    PeriodicRun.objects.create(name="read_prices", slot=1, started_at=NOON, finished_at=NOON, failed=True)
    clock.forward(121)
    assert attention(staff) == [
        "Failing parts of the service 1",
        (
            "Worker No worker is running, it cannot write, or periodic work is late. Webhooks and checks are delayed. "
            "Since 2026-01-01 12:00 UTC, for 2 minutes"
        ),
        "Failing periodic work 1",
        "Read prices The last run failed. See the log for its error. Since 2026-01-01 12:00 UTC, for 2 minutes",
        "Late health checks 1",
        "Checks Due for more than two minutes, as no worker has run them: 1.",
        "Late deliveries 1",
        "Deliveries Due for more than two minutes: 1. Check that a worker is running.",
    ]


SERVICE = ["Readiness", "Your last changes"]


@pytest.mark.parametrize(
    ("permissions", "kinds", "cards"),
    [
        ([], [], SERVICE),
        (["view_relayer"], ["Relayers"], ["Relayers", "JSON-RPC calls in the last 24 hours", *SERVICE]),
        (["view_notification"], ["Webhook"], SERVICE),
        (["view_delivery"], [], SERVICE),
        (
            ["view_notification", "view_delivery"],
            ["Webhook"],
            ["Webhooks", "Deliveries of the last 24 hours", *SERVICE],
        ),
        (["view_feetoken"], ["Fee"], ["Fee tokens without a price", *SERVICE]),
        (["view_accesstoken"], ["Access"], ["Readiness", "Tokens used last", "Your last changes"]),
    ],
)
def test_staff_see_what_they_may_view(
    client: Client, clock: Clock, permissions: list[str], kinds: list[str], cards: list[str]
) -> None:
    trouble()
    beat()
    staff = staff_who_may(client, *permissions)
    found = [line for line in attention(staff) if line.split()[0] in {"Relayers", "Webhook", "Fee", "Access"}]
    assert sorted({line.split()[0] for line in found}) == kinds
    assert [name for name in parts(staff)[2:] if not name.startswith("Note")] == cards


def test_relayers_are_counted_by_state_each_with_its_list(staff: Client) -> None:
    trouble()
    relayer_factories.relayer(identifier="resting", paused=True, **CHECKED)
    relayer_factories.relayer(identifier="unread")
    assert rows(staff, "Relayers") == [
        ["All", "6"],
        ["Disabled", "1"],
        ["Paused", "1"],
        ["Low balance", "1"],
        ["No address", "1"],
        ["Unknown", "1"],
        ["Nodes failing", "1"],
    ]
    assert links(part(staff, "Relayers"))["Low balance"] == "/admin/relayers/relayer/?state=low+balance"


def test_webhooks_are_counted_each_with_its_list(staff: Client, clock: Clock) -> None:
    trouble()
    target = Notification.objects.get(identifier="slow-0")
    for attempted in (NOON, NOON - 2 * DAY):
        Delivery.objects.create(
            notification=target, event="relayer.paused", body=b"{}", state="failed", attempted_at=attempted
        )
    deliveries, targets = "/admin/notifications/delivery/", "/admin/notifications/notification/"
    assert rows(staff, "Webhooks") == [
        ["Pending", "1"],
        ["Failed in the last day", "1"],
        ["Failing targets", "1"],
        ["Gone targets", "1"],
    ]
    assert links(part(staff, "Webhooks")) == {
        "Pending": f"{deliveries}?state__exact=pending",
        "Failed in the last day": f"{deliveries}?state__exact=failed",
        "Failing targets": f"{targets}?state=failing",
        "Gone targets": f"{targets}?state=gone",
    }


def fill(first: int, last: int) -> None:
    trouble(first, last)
    for relayer in Relayer.objects.all():
        counters.count(relayer.pk, "feeEstimate", "-32000", 0.1)
    counters.flush()
    counts.count_hours()


def test_it_makes_at_most_twenty_queries_whatever_there_is(staff: Client) -> None:
    counted = []
    for first, last in ((0, 1), (1, 30)):
        fill(first, last)
        # What is read once in a process is read before the counting.
        staff.get("/admin/")
        with CaptureQueriesContext(connection) as queries:
            staff.get("/admin/")
        counted.append(len(queries))
    assert counted[0] == counted[1] <= MAX_QUERIES
