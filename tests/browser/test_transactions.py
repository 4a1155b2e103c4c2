"""What staff see of transactions and lanes, and how they hold and release a lane."""

from __future__ import annotations

import csv
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page, expect

from relayer_service.jobs import running
from relayer_service.models import AuditEntry, Job
from tests.browser.conftest import TakeScreenshot
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from transactions.models import Lane, Status, StatusChange, Transaction

LIST = "/admin/transactions/transaction/"
LANES = "/admin/transactions/lane/"
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1440, "height": 900}
GWEI = 10**9
FUNDS = "Waiting for funds: the balance is 0.02 ETH, and 0.53 ETH are needed."
# A transfer of a token.
TRANSFER = bytes.fromhex("a9059cbb" + "00" * 12 + "70997970c51812dc3a010c7d01b50e0d17dc79c8" + "00" * 30 + "2710")
DARK = "document.documentElement.classList.add('dark')"


@pytest.fixture
def lane(staff: User) -> Lane:
    """The lane of a relayer with a transaction in each state, that waits for funds."""
    now = timezone.now()
    relayer = relayer_factories.relayer(
        identifier="payouts", name="Payouts", balance_text="20000000000000000", checked_at=now, nonce=42
    )
    lane = factories.lane(
        relayer,
        first_nonce=0,
        chain_nonce=42,
        chain_block=7_654_330,
        final_nonce=41,
        next_nonce=43,
        head_since=now - timedelta(minutes=2),
        waiting="funds",
        waiting_since=now - timedelta(minutes=8),
        waiting_details="The balance is 0.02 ETH, and 0.53 ETH are needed",
    )
    add(lane, "3b1f0c52-failed", Status.FAILED, 60, status_reason="Reverted: ERC20: transfer amount exceeds balance")
    confirm(lane, add(lane, "8f6e2d10-confirmed", Status.SUBMITTED, 30, nonce=41, data=TRANSFER))
    row = add(lane, "c4a98b77-submitted", Status.SUBMITTED, 3, nonce=42, value_text=str(25 * 10**16))
    signed(row, 1, 20)
    add(lane, "f0d35e91-pending", Status.PENDING, 8, status_reason=FUNDS, value_text=str(5 * 10**17))
    return lane


def add(lane: Lane, name: str, status: Status, minutes: int, **values: Any) -> Transaction:
    accepted = timezone.now() - timedelta(minutes=minutes)
    return factories.transaction(
        lane,
        identifier=f"{name}-4b7a-9c1e",
        status=status,
        created_at=accepted,
        requested_by="Shop",
        idempotency_key=f"order-{name[:4]}",
        **values,
    )


def signed(row: Transaction, number: int, gwei: int, **values: Any) -> None:
    at = row.created_at + timedelta(seconds=2 + 40 * (number - 1))
    factories.attempt(
        row,
        hash=f"0x{row.identifier[:8]}{number:x}{'4c0e17f9ab' * 6}"[:66],
        raw=b"\x02",
        max_fee_text=str(gwei * GWEI),
        max_priority_fee_text=str(GWEI),
        signed_at=at,
        broadcasts=number,
        first_broadcast_at=at,
        last_broadcast_at=at,
        accepted_at=at,
        outcome="accepted",
        **values,
    )
    Transaction.objects.filter(pk=row.pk).update(sent_at=at, submitted_at=at)
    row.refresh_from_db()


def confirm(lane: Lane, row: Transaction) -> None:
    """Raise its price once, mine and confirm it."""
    signed(row, 1, 20)
    signed(row, 2, 23)
    row.mined_attempt = row.last_attempt
    row.status, row.block_number, row.block_hash, row.succeeded = Status.CONFIRMED, 7_654_321, "0x" + "ab" * 32, True
    row.gas_used, row.effective_gas_price_text = 51_234, str(17 * GWEI)
    row.mined_at = row.created_at + timedelta(seconds=61)
    row.finished_at = row.created_at + timedelta(seconds=90)
    row.save()
    steps = [("pending", "sent", 2, None), ("sent", "submitted", 3, None), ("submitted", "mined", 61, 7_654_321)]
    for version, (before, after, seconds, block) in enumerate([*steps, ("mined", "confirmed", 90, 7_654_321)], 2):
        StatusChange.objects.create(
            transaction=row,
            version=version,
            from_status=before,
            to_status=after,
            at=row.created_at + timedelta(seconds=seconds),
            block_number=block,
        )


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def pictures(page: Page, name: str, take_screenshot: TakeScreenshot) -> None:
    """Take a page on a desk and on a phone, in both themes; it is never wider than the screen."""
    for width, size in (("desk", DESK), ("phone", PHONE)):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        page.evaluate("document.documentElement.classList.remove('dark'); window.scrollTo(0, 0)")
        assert (width, fits(page)) == (width, True)
        take_screenshot(page, f"{name}-{width}")
        page.evaluate(DARK)
        take_screenshot(page, f"{name}-{width}-dark")
    page.evaluate("document.documentElement.classList.remove('dark')")
    page.set_viewport_size(DESK)  # type: ignore[arg-type]


def test_a_waiting_transaction_is_found_with_its_reason(
    page: Page, lane: Lane, take_screenshot: TakeScreenshot
) -> None:
    page.goto("/admin/", wait_until="networkidle")
    expect(page.get_by_role("link", name="Lanes that wait for funds")).to_be_visible()
    pictures(page, "overview", take_screenshot)
    page.locator("#nav-sidebar, nav").get_by_role("link", name="Transactions").first.click()
    expect(page.locator("#result_list tbody tr")).to_have_count(4)
    pictures(page, "transactions", take_screenshot)
    page.locator("#content, main").get_by_role("link", name="Pending", exact=True).first.click()
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    expect(page.locator("#result_list .field-reason")).to_have_text(FUNDS)
    page.get_by_role("link", name="f0d35e91-pending-4b7a-9c1e").click()
    expect(page.locator(".transaction-reason")).to_have_text(FUNDS)
    expect(page.get_by_text("Nothing was signed yet.")).to_be_visible()
    pictures(page, "transaction-pending", take_screenshot)


def test_the_page_of_a_confirmed_transaction_tells_its_story(
    page: Page, lane: Lane, take_screenshot: TakeScreenshot
) -> None:
    row = Transaction.objects.get(status=Status.CONFIRMED)
    page.goto(f"{LIST}{row.pk}/change/", wait_until="networkidle")
    assert page.locator(".time-line strong").all_inner_texts() == [
        *("Confirmed", "Mined", "Submitted", "Sent", "Accepted"),
    ]
    expect(page.locator(".signed-attempts .data-row")).to_have_count(2)
    summary = page.locator(".long-data summary")
    expect(page.locator(".long-data pre")).to_be_hidden()
    summary.click()
    expect(page.locator(".long-data pre")).to_have_text(f"0x{TRANSFER.hex()}")
    summary.click()
    expect(page.get_by_text("0.000870978 ETH")).to_be_visible()
    assert page.get_by_role("button", name="Save").count() == 0
    pictures(page, "transaction", take_screenshot)


def test_a_lane_is_held_and_released(page: Page, lane: Lane, take_screenshot: TakeScreenshot) -> None:
    page.goto(LANES, wait_until="networkidle")
    pictures(page, "lanes", take_screenshot)
    page.locator("#result_list tbody th a").click()
    expect(page.locator(".signed-attempts .data-row")).to_have_count(1)
    page.get_by_role("link", name="Hold").click()
    expect(page.get_by_text("No request gets a nonce until the lane is released.")).to_be_visible()
    page.get_by_label("Reason").fill("The key is rotated")
    pictures(page, "lane-hold", take_screenshot)
    page.get_by_role("button", name="Hold lane").click()
    expect(page.get_by_text("Held: 1 lane.")).to_be_visible()
    expect(page.locator(".transaction-reason").first).to_contain_text(": The key is rotated")
    pictures(page, "lane", take_screenshot)
    lane.refresh_from_db()
    Lane.objects.update(holds={**lane.holds, "lost_commits": {**lane.holds["operator"], "details": "Timeline 1 to 2"}})

    page.get_by_role("link", name="Release").first.click()
    expect(page.get_by_text("the payment would be made twice")).to_be_visible()
    expect(page.get_by_label("Held by staff")).to_be_checked()
    expect(page.get_by_label("The database may have lost commits")).not_to_be_checked()
    page.get_by_label("Reason").fill("The new key signs")
    pictures(page, "lane-release", take_screenshot)
    page.get_by_role("button", name="Release lane").click()
    expect(page.get_by_text("Released: 1 lane.")).to_be_visible()
    lane.refresh_from_db()
    assert [*lane.holds] == ["lost_commits"]
    reasons = AuditEntry.objects.for_row(lane).order_by("id").values_list("actor", "reason")
    assert list(reasons) == [
        ("olga", "Held: Held by staff. The key is rotated"),
        ("olga", "Released: Held by staff. The new key signs"),
    ]


def test_transactions_are_exported_and_canceled_from_their_list(
    page: Page, lane: Lane, take_screenshot: TakeScreenshot, tmp_path: Path
) -> None:
    page.goto(f"{LIST}?status=pending", wait_until="networkidle")
    assert exported(page, tmp_path, "id") == ["f0d35e91-pending-4b7a-9c1e"]
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option(label="Cancel selected transactions")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("Requests that 1 transaction be canceled.")).to_be_visible()
    pictures(page, "transactions-cancel", take_screenshot)
    page.get_by_role("button", name="Cancel transactions").click()
    page.get_by_role("link", name="View its progress").click()
    running.run_job.call_local(Job.objects.get().pk)
    expect(page.get_by_text("Finished: 1 of 1.")).to_be_visible()
    assert Transaction.objects.get(identifier__startswith="f0d35e91").status == Status.CANCELED

    page.goto(LIST, wait_until="networkidle")
    page.get_by_role("link", name="Gas spent").click()
    page.get_by_label("From").fill("2030-01-01")
    page.get_by_role("button", name="Export CSV").click()
    expect(page.get_by_text("This day is before the first one.")).to_be_visible()
    pictures(page, "gas-spent", take_screenshot)
    page.get_by_label("From").fill((timezone.now() - timedelta(days=1)).date().isoformat())
    assert exported(page, tmp_path, "fee", role="button") == [str(51_234 * 17 * GWEI)]


def exported(page: Page, folder: Path, column: str, role: Literal["link", "button"] = "link") -> list[str]:
    """Return a column of the CSV that a page exports."""
    with page.expect_download() as download:
        page.get_by_role(role, name="Export CSV").click()
    download.value.save_as(folder / "export.csv")
    with (folder / "export.csv").open(newline="") as file:
        return [row[column] for row in csv.DictReader(file)]


def test_the_page_of_a_relayer_leads_to_its_transactions(
    page: Page, lane: Lane, take_screenshot: TakeScreenshot
) -> None:
    assert lane.relayer
    page.goto(f"/admin/relayers/relayer/{lane.relayer.pk}/change/")
    expect(page.locator(".transaction-reason")).to_contain_text("The balance is 0.02 ETH, and 0.53 ETH are needed.")
    take_screenshot(page, "relayer-transactions")
    page.get_by_role("link", name="All its transactions").click()
    expect(page.locator("#result_list tbody tr")).to_have_count(4)
