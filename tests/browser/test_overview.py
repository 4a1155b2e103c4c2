"""The overview refreshes itself, also while somebody works with it."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from playwright.sync_api import Page, expect

from notifications.delivery import counts
from notifications.models import Delivery, Notification
from relayer_service.models import PeriodicRun
from relayer_service.observability.call_counts import ALL_RELAYERS, CallCount
from relayers.health import checking
from relayers.health.checking import AccountReading
from relayers.models import Relayer, RelayerHealth
from tests.browser.conftest import TakeScreenshot
from tests.relayers import factories

ETHER = 10**18
HALF_A_MINUTE = 30_000


def checked(relayer: Relayer, reading: AccountReading) -> None:
    RelayerHealth.objects.update(due_at=timezone.now())
    for claimed in RelayerHealth.objects.select_related("relayer").claim(10, checking.lease_length()):
        checking.write([(claimed, reading if claimed.pk == relayer.pk else AccountReading(nonce=1, balance=ETHER))])


@pytest.fixture
def treasury(transactional_db: None) -> Relayer:
    """A relayer that has enough, among what a day leaves: calls, deliveries, a target that fails."""
    now = timezone.now()
    PeriodicRun.objects.create(name="heartbeat", slot=1, started_at=now, finished_at=now)
    relayer = factories.relayer(identifier="treasury", name="Treasury", policies={"min_balance": ETHER // 2})
    factories.relayer(identifier="payroll", name="Payroll", policies={"min_balance": 2 * ETHER})
    for minutes in range(0, 24 * 60, 7):
        hook = Notification.objects.get_or_create(identifier="ops", defaults={"url": "https://ops.example.com"})[0]
        state = "failed" if minutes % 5 == 0 else "delivered"
        created = now - timedelta(minutes=minutes)
        Delivery.objects.create(notification=hook, event="relayer.paused", body=b"{}", state=state, created_at=created)
    counts.count_hours()
    for ago in range(24):
        hour = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=ago)
        for outcome, calls in (("ok", 400 + 37 * (ago % 7)), ("-32602", 20), ("-32000", 9 * (ago in {3, 4}))):
            CallCount.objects.create(
                kind=ALL_RELAYERS, start=hour, outcome=outcome, calls=calls, slowest_milliseconds=300 + 20 * ago
            )
    checked(relayer, AccountReading(nonce=7, balance=ETHER))
    return relayer


def test_a_relayer_that_runs_dry_is_counted_by_itself_until_it_is_topped_up(
    page: Page, treasury: Relayer, take_screenshot: TakeScreenshot
) -> None:
    page.clock.install()
    page.goto("/admin/", wait_until="networkidle")
    low = page.locator(".attention li", has_text="balance below the minimum")
    expect(low).to_contain_text("1 relayer")
    payroll = page.get_by_role("link", name="Payroll (payroll)")
    payroll.focus()
    checked(treasury, AccountReading(nonce=7, balance=ETHER // 10))
    page.clock.fast_forward(HALF_A_MINUTE)
    expect(low).to_contain_text("2 relayers")
    expect(low.locator("time")).to_contain_text("for less than a minute")
    take_screenshot(page, "overview")
    checked(treasury, AccountReading(nonce=7, balance=ETHER))
    page.clock.fast_forward(HALF_A_MINUTE)
    expect(low).to_contain_text("1 relayer Payroll (payroll): Its balance is 1 ETH, below the minimum of 2 ETH.")
    expect(payroll).to_be_visible()


def test_a_note_that_is_being_written_is_kept_while_the_page_refreshes(page: Page, treasury: Relayer) -> None:
    page.clock.install()
    page.goto("/admin/", wait_until="networkidle")
    row = page.locator(".attention li", has_text="balance below the minimum")
    row.get_by_text("Acknowledge").click()
    row.get_by_label("Note on").fill("Finance knows")
    checked(treasury, AccountReading(nonce=7, balance=ETHER // 10))
    with page.expect_response("**/admin/"):
        page.clock.fast_forward(HALF_A_MINUTE)
    expect(row.get_by_label("Note on")).to_have_value("Finance knows")
    row.get_by_label("Note on").press("Enter")
    # The page showed one relayer, and now there are two.
    expect(page.get_by_text("Not acknowledged, as it has changed: sepolia")).to_be_visible()


@pytest.mark.parametrize("width", [1440, 390])
def test_the_overview_fits_in_two_screens_whatever_breaks(page: Page, treasury: Relayer, width: int) -> None:
    down = {"signer": treasury.signer, "address": treasury.address, "name": "Down", "failed_checks": 2}
    down |= {"failing_since": timezone.now(), "checked_at": timezone.now(), "nonce": 1, "balance_text": "1"}
    for number in range(60):
        factories.relayer(identifier=f"down-{number}", network=f"net-{number}", **down)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/admin/", wait_until="networkidle")
    # A fleet in use has dismissed it.
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator(".attention [data-part='Needs attention'] li")).to_have_count(15)
    height = page.evaluate("document.querySelector('#overview').scrollHeight")
    # A phone is narrow: everything is below each other.
    assert height <= (1800 if width > 1000 else 5000)


def test_a_page_of_a_signed_out_user_shows_it_and_stops_refreshing(page: Page, treasury: Relayer) -> None:
    page.clock.install()
    page.goto("/admin/", wait_until="networkidle")
    Session.objects.all().delete()
    page.clock.fast_forward(HALF_A_MINUTE)
    expect(page.locator("[data-refresh]")).to_have_text("You are signed out. This page is no longer refreshed.")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.fast_forward(4 * HALF_A_MINUTE)
    assert asked == []
