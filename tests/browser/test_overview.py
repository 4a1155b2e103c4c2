"""The overview refreshes itself, also while somebody works with it."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from playwright.sync_api import Page, expect

from notifications.delivery import counts
from notifications.models import Delivery, Notification
from relayer_service.models import PeriodicRun
from relayers import health
from relayers.health import AccountReading
from relayers.models import Relayer
from rpc.models import CallHour
from tests.browser.conftest import TakeScreenshot
from tests.relayers import factories

ETHER = 10**18
HALF_A_MINUTE = 30_000


def checked(relayer: Relayer, reading: AccountReading) -> None:
    Relayer.objects.update(due_at=timezone.now())
    for claimed in Relayer.objects.all().claim(10, health.lease_length()):
        health.write([(claimed, reading if claimed.pk == relayer.pk else AccountReading(nonce=1, balance=ETHER))])


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
            CallHour.objects.create(
                hour=hour, outcome=outcome, calls=calls, milliseconds=calls * 60, slowest_milliseconds=300 + 20 * ago
            )
    checked(relayer, AccountReading(nonce=7, balance=ETHER))
    return relayer


def test_a_relayer_that_runs_dry_appears_by_itself_and_is_gone_once_it_is_topped_up(
    page: Page, treasury: Relayer, take_screenshot: TakeScreenshot
) -> None:
    page.clock.install()
    page.goto("/admin/", wait_until="networkidle")
    named = page.locator(".attention li", has_text="Treasury")
    expect(page.locator(".attention li", has_text="Payroll")).to_be_visible()
    assert named.count() == 0
    payroll = page.get_by_role("link", name="Payroll (payroll) on sepolia")
    payroll.focus()
    checked(treasury, AccountReading(nonce=7, balance=ETHER // 10))
    page.clock.fast_forward(HALF_A_MINUTE)
    expect(named).to_contain_text("Its balance is 0.1 ETH, below the minimum of 0.5 ETH.")
    expect(named.locator("time")).to_contain_text("for less than a minute")
    expect(payroll).to_be_focused()
    take_screenshot(page, "overview")
    checked(treasury, AccountReading(nonce=7, balance=ETHER))
    page.clock.fast_forward(HALF_A_MINUTE)
    expect(named).to_have_count(0)


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
