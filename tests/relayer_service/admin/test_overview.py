"""The overview: what needs attention first, then counts and charts, to those who may see them."""

from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from notifications.delivery import counts
from notifications.models import Delivery, Notification
from relayer_service.health.views import require_migrations
from relayer_service.models import Acknowledgement, PeriodicRun
from relayer_service.observability import probes
from relayers.models import Relayer
from rpc import counters
from rpc.models import FeeToken
from tests.notifications.admin_pages import staff_who_may
from tests.notifications.clock import NOON, Clock, clock
from tests.relayer_service.admin.overview_pages import attention, links, part, parts, rendered, rows, text
from tests.relayers import factories as relayer_factories
from tests.rpc import factories as token_factories
from tokens.models import AccessToken
from tokens.writes import issue

__all__ = ["clock"]

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
CHECKED = {"checked_at": NOON, "nonce": 7, "balance_text": "5", "due_at": NOON}
MAX_QUERIES = 26


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
    failing = {"failed_checks": 1, "failing_since": NOON - 3 * HOUR}
    low = {"balance_is_low": True, "low_since": NOON - HOUR, "policies": {"min_balance": 5 * 10**17}}
    owner = User.objects.get_or_create(username="ben")[0]
    for number in range(first, last):
        relayer_factories.relayer(identifier=f"off-{number}", name="Off", **CHECKED | disabled | failing)
        relayer_factories.relayer(identifier=f"dry-{number}", name="Dry", **CHECKED | low)
        relayer_factories.relayer(identifier=f"new-{number}", name="New", address="", due_at=NOON)
        relayer_factories.relayer(identifier=f"shaky-{number}", name="Shaky", **CHECKED | failing)
        slow = Notification.objects.create(
            identifier=f"slow-{number}",
            url="https://a.example.com",
            failing_since=NOON - HOUR,
            failing_error="No response in time.",
        )
        Delivery.objects.create(notification=slow, event="relayer.paused", body=b"{}", due_at=NOON + HOUR)
        Notification.objects.create(identifier=f"gone-{number}", url="https://b.example.com", gone_at=NOON - 2 * HOUR)
        addresses = (f"0x{digit}{number:039}" for digit in (1, 2, 3))
        for (symbol, values), address in zip(PRICES.items(), addresses, strict=True):
            token_factories.fee_token(symbol=f"{symbol}{number}", address=address, **values)
        issue(name=f"Report {number}", user=owner, expires_at=NOON + 3 * DAY)
    Relayer.objects.update(created_at=NOON - DAY)
    FeeToken.objects.update(created_at=NOON - DAY)
    if last == 1:
        AccessToken.objects.update(key="0123456789ab")


PRICES: dict[str, dict[str, Any]] = {
    "FAILED": {"rated_at": NOON - HOUR, "rate_error": "No source has a price."},
    "STALE": {"rated_at": NOON - HOUR},
    "NEVER": {"rated_at": None},
}
FAILING = "Deliveries are failing. See the errors in the delivery log."
NEVER_ASKED = "The signer has not provided its address since it was last changed. Save the relayer to read it."
GONE = "Nothing is sent to it. To resume, change its URL or replay a delivery."
HOUR_AGO = "Since 2026-01-01 11:00 UTC, for 1 hour"
SUBJECTS = "the service and its worker, relayers, webhooks, fee tokens, access tokens, alerts"


def test_where_nothing_is_wrong_no_problems_are_found_in_what_was_checked(staff: Client) -> None:
    page = rendered(staff)
    assert attention(page) == ["No problems found."]
    assert text(part(page, "Checked")) == f"Checked at 2026-01-01 12:00:00 UTC: {SUBJECTS}."
    assert [text(part(page, name)) for name in parts(page)[3:]] == [
        "Relayers There are no relayers yet.",
        "Webhooks No delivery is pending, and no webhook fails.",
        "Fee tokens without a price None: every price is current.",
        "Deliveries of the last 24 hours Not counted yet: the worker counts them every minute.",
        "JSON-RPC calls in the last 24 hours There were no calls. 24 hours 7 days 30 days",
        "Readiness All 6 parts of the service work.",
        "Periodic work The periodic job is on time.",
        "Tokens used last No token has been used yet.",
        "Your last changes You have not changed anything yet.",
    ]
    beat()
    relayer_factories.relayer(**CHECKED | {"failed_checks": 1, "failing_since": NOON})
    Acknowledgement.objects.create(cause="relayers.nodes:sepolia", number=1, severe=True, by="ada", at=NOON)
    assert attention(staff) == ["No new problems."]


def test_each_cause_has_a_row_with_its_number_reason_start_and_links(staff: Client) -> None:
    trouble()
    assert attention(staff) == [
        f"hardhat: token prices cannot be read 1 fee token FAILED0 on hardhat : No source has a price. {HOUR_AGO}",
        (
            "hardhat: token prices are stale 1 fee token STALE0 on hardhat : "
            f"The worker has not read its price for several minutes. {HOUR_AGO}"
        ),
        f"Failing webhooks: No response in time 1 webhook slow-0 : {FAILING} {HOUR_AGO}",
        (f"Webhooks that returned 410 1 webhook gone-0 : {GONE} Since 2026-01-01 10:00 UTC, for 2 hours"),
        (
            "sepolia: no node answers 2 relayers Off (off-0) and others: Why. "
            "Nodes: https://ethereum-sepolia-rpc.publicnode.com Since 2026-01-01 09:00 UTC, for 3 hours"
        ),
        (
            "hardhat: token prices were never read 1 fee token NEVER0 on hardhat : The worker reads prices every "
            "minute, but has not read this one yet. Since 2025-12-31 12:00 UTC, for 1 day"
        ),
        (
            "sepolia: balance below the minimum 1 relayer Dry (dry-0) : Its balance is 5 wei , "
            f"below the minimum of 0.5 ETH . {HOUR_AGO}"
        ),
        (
            f"Relayers without an address: signer signer-1 1 relayer New (new-0) : {NEVER_ASKED} "
            "Since 2025-12-31 12:00 UTC, for 1 day"
        ),
        (
            "Access tokens that expire within 14 days 1 token Report 0 (rms_0123456789ab_…) : "
            "Expires on 2026-01-04 12:00 UTC, in 3 days; never used. Since 2025-12-21 12:00 UTC, for 1 week"
        ),
    ]
    found = links(part(staff, "Needs attention"))
    assert len(found) == 18
    pages = {name: staff.get(url) for name, url in found.items()}
    assert {page.status_code for page in pages.values()} == {200}
    counts = {name: page.context["cl"].result_count for name, page in pages.items() if "cl" in page.context}
    assert counts.pop("sepolia: no node answers") == 2
    assert (len(counts), {*counts.values()}) == (8, {1})
    assert found["Off (off-0)"] == f"/admin/relayers/relayer/{Relayer.objects.get(name='Off').pk}/change/"


def test_there_are_at_most_fifteen_rows_whatever_breaks(staff: Client) -> None:
    trouble()
    signer = relayer_factories.signer()
    down = {"failed_checks": 1, "failing_since": NOON, "signer": signer, "address": "0x1", **CHECKED}
    for number in range(100):
        relayer_factories.relayer(identifier=f"down-{number}", name="Down", network=f"net-{number}", **down)
    for number in range(50):
        Notification.objects.create(
            identifier=f"way-{number}",
            url="https://a.example.com",
            failing_since=NOON,
            failing_error=f"Returned HTTP {400 + number}.",
        )
    found = attention(staff)
    assert len(found) == 15
    assert found[-1] == "and 145 more causes: relayers (98) , webhooks (47)"
    # No kind of problem is hidden by the number of another.
    kinds = {line.partition(": ")[2].partition(" 1 ")[0] for line in found}
    assert {"token prices are stale", "balance below the minimum", "no node answers"} <= kinds
    others = links(part(staff, "Needs attention"))
    assert others["relayers (98)"] == "/admin/relayers/relayer/"


def test_a_service_without_a_worker_reports_it_and_the_late_work(staff: Client, clock: Clock) -> None:
    target = Notification.objects.create(identifier="hook", url="https://a.example.com")
    relayer_factories.relayer(**CHECKED)
    Delivery.objects.create(notification=target, event="relayer.paused", body=b"{}", due_at=NOON)
    PeriodicRun.objects.update(started_at=NOON, finished_at=NOON)
    PeriodicRun.objects.create(name="read_prices", slot=1, started_at=NOON, finished_at=NOON, failed=True)
    clock.forward(121)
    since = "Since 2026-01-01 12:00 UTC, for 2 minutes"
    assert attention(staff) == [
        (
            "Failing part of the service: worker 1 part No worker is running, it cannot write, or periodic work is "
            f"late. Webhooks and checks are delayed. {since}"
        ),
        f"Late health checks 1 check Due for more than two minutes, as no worker has run them. {since}",
        f"Failing periodic work 1 job The last run failed: read prices. See the log for the errors. {since}",
        f"Late deliveries 1 delivery Due for more than two minutes. Is a worker running? {since}",
    ]


def test_a_check_that_does_not_respond_in_time_is_reported_without_a_cause(
    staff: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, start = Future[Any](), probes.start
    monkeypatch.setattr(probes, "wait", lambda futures, seconds: None)
    monkeypatch.setattr(probes, "start", lambda probe: slow if probe is require_migrations else start(probe))
    try:
        (line,) = attention(staff)
    finally:
        slow.set_result(None)
    assert line == "Failing part of the service: migrations 1 part The check did not respond in time."


SERVICE = ["Readiness", "Your last changes"]


@pytest.mark.parametrize(
    ("permissions", "kinds", "cards"),
    [
        ([], [], SERVICE),
        (["view_relayer"], ["Relayers", "sepolia:"], ["Relayers", "JSON-RPC calls in the last 24 hours", *SERVICE]),
        (["view_delivery"], [], SERVICE),
        (
            ["view_notification", "view_delivery"],
            ["Failing", "Webhooks"],
            ["Webhooks", "Deliveries of the last 24 hours", *SERVICE],
        ),
        (["view_feetoken"], ["hardhat:"], ["Fee tokens without a price", *SERVICE]),
        (["view_accesstoken"], ["Access"], ["Readiness", "Tokens used last", "Your last changes"]),
    ],
)
def test_staff_see_what_they_may_view(
    client: Client, clock: Clock, permissions: list[str], kinds: list[str], cards: list[str]
) -> None:
    trouble()
    beat()
    staff = staff_who_may(client, *permissions)
    assert sorted({line.split()[0] for line in attention(staff)} - {"No"}) == kinds
    assert [name for name in parts(staff)[3:] if not name.startswith("Note")] == cards


def test_periodic_work_and_readiness_show_only_what_is_late_or_fails(staff: Client) -> None:
    now = datetime.now(UTC)
    for name, age, failed in (("read_prices", 2, False), ("fold_counts", 200, False), ("clear_sessions", 2, True)):
        started = now - timedelta(seconds=age)
        PeriodicRun.objects.create(name=name, slot=1, started_at=started, finished_at=started, failed=failed)
    assert [row[::2] for row in rows(staff, "Periodic work")] == [
        ["Clear sessions", "failed"],
        ["Fold counts", "late"],
    ]
    assert rows(staff, "Readiness") == [["Worker", "failed"]]


def test_relayers_and_webhooks_are_counted_each_with_its_list(staff: Client) -> None:
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
        ["About to be disabled", "1"],
    ]
    assert links(part(staff, "Relayers"))["Low balance"] == "/admin/relayers/relayer/?state=low+balance"
    target = Notification.objects.get(identifier="slow-0")
    for attempted in (NOON, NOON - 2 * DAY):
        values = {"event": "relayer.paused", "body": b"{}", "state": "failed", "attempted_at": attempted}
        Delivery.objects.create(notification=target, **values)
    names = ["Pending", "Failed in the last day", "Failing webhooks", "Webhooks that returned 410"]
    assert rows(staff, "Webhooks") == [[name, "1"] for name in names]
    deliveries, targets = "/admin/notifications/delivery/?state__exact=", "/admin/notifications/notification/?state="
    urls = [f"{deliveries}pending", f"{deliveries}failed", f"{targets}failing", f"{targets}gone"]
    assert links(part(staff, "Webhooks")) == dict(zip(names, urls, strict=True))


def test_it_makes_the_same_few_queries_and_has_one_row_a_cause_whatever_there_is(staff: Client) -> None:
    counted = []
    for first, last in ((0, 1), (1, 12)):
        trouble(first, last)
        for relayer in Relayer.objects.all():
            counters.count(relayer.pk, "feeEstimate", "-32000", 0.1)
        counters.flush()
        counts.count_hours()
        # What is read once in a process is read before the counting.
        found = attention(staff)
        with CaptureQueriesContext(connection) as queries:
            staff.get("/admin/")
        counted.append(len(queries))
    assert counted[0] == counted[1] <= MAX_QUERIES
    assert len(found) == 9
    assert found[4].startswith("sepolia: no node answers 24 relayers Off (off-0) and others: Why.")
