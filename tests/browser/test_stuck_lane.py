"""A stuck lane is found on the overview, understood, and freed in three clicks. Its chain is real."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from playwright.sync_api import Page, expect

from relayer_service.models import AuditEntry
from tests.browser.conftest import TakeScreenshot
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from tests.transactions.hardhat import GWEI, RECEIVER, LocalChain, local_chain, local_node
from tests.transactions.single_turns import take_turn
from transactions.lanes import leasing
from transactions.models import Attempt, Lane, Transaction
from transactions.settlement.watching import look

__all__ = ["local_chain", "local_node"]

LATE = timedelta(minutes=20)
PRICE = {"pricing": "eip1559", "speed": "", "max_fee_text": str(2 * GWEI), "max_priority_fee_text": str(GWEI)}


def turn(lane: Lane, chain: LocalChain, blocks: int = 0) -> None:
    """Do what a worker does, and mine blocks after it."""
    take_turn(lane)
    chain.mine(blocks)
    look([lane])


def statuses() -> list[str]:
    return list(Transaction.objects.order_by("nonce").values_list("status", flat=True))


@pytest.fixture
def lane(staff: User, local_chain: LocalChain) -> Lane:
    """A lane whose first transaction has a price below the base fee, with two others behind it, for 20 minutes."""
    urls = [{"url": local_chain.url, "weight": 100}]
    relayer = relayer_factories.relayer(identifier="payouts", name="Payouts", network="hardhat", rpc_urls=urls)
    factories.lane(relayer, first_nonce=None, next_nonce=None)
    lane = leasing.claim(Lane.objects.get().pk)
    assert lane
    for number, price in enumerate([{}, PRICE, {}, {}]):
        factories.transaction(lane, identifier=f"order-{number}", to=RECEIVER, value_text="1", **price)
        turn(lane, local_chain, 0 if number else 1)
    local_chain.rpc("hardhat_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    turn(lane, local_chain, 1)
    dates = ("signed_at", "first_broadcast_at", "last_broadcast_at", "accepted_at")
    Attempt.objects.update(**{name: F(name) - LATE for name in dates})
    Transaction.objects.update(**{name: F(name) - LATE for name in ("created_at", "sent_at", "submitted_at")})
    Lane.objects.update(head_since=F("head_since") - LATE)
    return lane


def test_a_stuck_lane_is_found_understood_and_freed_in_three_clicks(
    page: Page, lane: Lane, local_chain: LocalChain, take_screenshot: TakeScreenshot
) -> None:
    assert statuses() == ["confirmed", "submitted", "submitted", "submitted"]
    page.goto("/admin/")
    page.get_by_role("link", name="Payouts (payouts)").first.click()

    # The market comes after the page.
    expect(page.locator(".stuck-cell.is-next")).to_contain_text("below base fee")
    expect(page.locator(".stuck-headline")).to_contain_text("The chain has expected nonce 1 for 20 minutes.")
    expect(page.locator(".stuck-headline")).to_contain_text("Behind it: 2 in flight.")
    expect(page.locator(".stuck-cell")).to_have_count(4)
    expect(page.locator(".stuck-cell.is-next")).to_contain_text("Its client set the price")
    take_screenshot(page, "stuck-lane")
    page.get_by_role("link", name="Speed up nonce 1").first.click()

    expect(page.get_by_text("executed at most once")).to_be_visible()
    page.get_by_role("button", name="Speed up").click()
    expect(page.get_by_text("The higher price is requested.")).to_be_visible()
    expect(page.locator(".stuck-headline")).to_contain_text("It is being signed at a higher price")

    turn(lane, local_chain, 1)
    assert statuses() == ["confirmed", "mined", "mined", "mined"]
    row = Transaction.objects.get(nonce=1)
    assert [(entry.actor, entry.reason) for entry in AuditEntry.objects.for_row(row)] == [
        ("olga", "Higher price requested by olga.")
    ]
    page.reload()
    expect(page.locator(".stuck-headline")).to_have_text("It is not stuck: nothing is in flight or queued.")
