"""What staff do with relayers: view the fleet, add one, see its nodes, pause and resume."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone
from eth_utils.address import to_checksum_address
from playwright.sync_api import BrowserContext, Page, expect

from notifications.models import Delivery, Notification
from relayers.models import Relayer, RelayerHealth
from signers.models import Signer
from tests.browser.conftest import TakeScreenshot
from tests.relayers import factories
from tests.relayers.stand_in_node import HARDHAT_CHAIN, StandInNode, serve
from tests.servers import free_port

LIST = "/admin/relayers/relayer/"
ADD = f"{LIST}add/"
OTHER_ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
CAP = str(2**53 + 1)


@pytest.fixture
def nodes() -> Iterator[list[StandInNode]]:
    with ExitStack() as stack:
        yield [stack.enter_context(serve(StandInNode(head_block=20_000_123 - number))) for number in range(2)]


@pytest.fixture
def fleet(transactional_db: None, nodes: list[StandInNode]) -> Relayer:
    """The relayers of a small company, one of them on nodes that answer; that one is returned."""
    now = timezone.now()
    hook = Notification.objects.create(identifier="billing", url="https://billing.example.com/webhooks")
    seen = {"checked_at": now - timedelta(seconds=40), "nonce": 4182, "balance_text": "2481937500000000000"}
    low = {"balance_text": "9310000000000000", "balance_is_low": True}
    reason = "The nonce could not be read from any node: connection failed; did not respond in time."
    disabled = {
        "system_disabled": True,
        "disabled_reason_type": "NonceSyncFailed",
        "disabled_reason_details": reason,
        "failed_checks": 2,
        "nonce": 77,
        "checked_at": now - timedelta(seconds=12),
    }
    rows: list[dict[str, Any]] = [
        {"identifier": "sepolia-tests", "name": "Smoke tests", "network": "sepolia"},
        {"identifier": "base-refunds", "name": "Refunds", "network": "base", "paused": True, **seen},
        {"identifier": "arbitrum-1", "name": "Arbitrum", "network": "arbitrum", **disabled},
        {"identifier": "optimism-1", "name": "Optimism", "network": "optimism", **seen | low},
        {"identifier": "mainnet-1", "name": "Mainnet", "network": "mainnet", **seen},
    ]
    for number, row in enumerate(rows):
        # An address that looks like one, and is always the same.
        digits = hashlib.sha256(str(number).encode()).hexdigest()[:40]
        factories.relayer(address=to_checksum_address(f"0x{digits}"), **row)
    urls = [
        {"url": nodes[0].url, "weight": 70},
        {"url": nodes[1].url, "weight": 20},
        {"url": f"http://127.0.0.1:{free_port()}/v1/s3cret", "weight": 10},
    ]
    return factories.relayer(
        identifier="hardhat-payroll",
        name="Payroll",
        network="hardhat",
        notification=hook,
        rpc_urls=urls,
        policies={
            "eip1559_pricing": True,
            "gas_price_cap": 50_000_000_000,
            "min_balance": 10**17,
            "whitelist_receivers": [factories.ADDRESS, OTHER_ADDRESS],
        },
        **seen,
    )


def choose(page: Page, field: str, name: str) -> None:
    page.get_by_role("combobox").filter(has=page.locator(f"#select2-id_{field}-container")).click()
    page.locator(".select2-search__field").fill(name)
    page.locator(".select2-results").get_by_text(name).click()


def test_the_list_shows_the_state_of_the_fleet_and_copies_addresses(
    context: BrowserContext, page: Page, fleet: Relayer, take_screenshot: TakeScreenshot
) -> None:
    page.goto(LIST, wait_until="networkidle")
    found = [row.locator("th, td").all_inner_texts() for row in page.locator("#result_list tbody tr").all()]
    shown = [[text.replace("\xa0", " ").strip() for text in row[1:]] for row in found]
    assert [[*row[:4], row[5], re.sub(".+ ago", "N ago", row[6])] for row in shown] == [
        ["Payroll", "hardhat-payroll", "ACTIVE", "hardhat", "2.48193 ETH", "N ago"],
        ["Mainnet", "mainnet-1", "ACTIVE", "mainnet", "2.48193 ETH", "N ago"],
        ["Optimism", "optimism-1", "LOW BALANCE", "optimism", "0.00931 ETH", "N ago"],
        ["Arbitrum", "arbitrum-1", "DISABLED", "arbitrum", "unknown", "N ago"],
        ["Refunds", "base-refunds", "PAUSED", "base", "2.48193 ETH", "N ago"],
        ["Smoke tests", "sepolia-tests", "UNKNOWN", "sepolia", "unknown", "never"],
    ]
    take_screenshot(page, "relayers")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    row = page.locator("#result_list tbody tr").first
    row.get_by_role("button", name="Copy the address").click()
    expect(row.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == factories.ADDRESS


def test_relayers_are_filtered_and_paused_together(
    page: Page, fleet: Relayer, take_screenshot: TakeScreenshot
) -> None:
    page.goto(f"{LIST}?state=active", wait_until="networkidle")
    expect(page.locator("#result_list tbody tr")).to_have_count(2)
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option(label="Pause selected relayers")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("Pause 2 relayers?")).to_be_visible()
    assert page.locator(".confirmation tbody td:first-child").all_inner_texts() == ["mainnet-1", "hardhat-payroll"]
    page.get_by_label("Reason").fill("The vault is being moved to another data centre")
    take_screenshot(page, "relayers-pause")
    page.get_by_role("button", name="Pause relayers").click()
    expect(page.get_by_text("Paused: 2 relayers.")).to_be_visible()
    assert Relayer.objects.filter(paused=True).count() == 3
    assert Delivery.objects.get().event == "relayer.paused"


def test_one_relayer_is_paused_and_resumed_on_its_page(page: Page, fleet: Relayer) -> None:
    page.goto(f"{LIST}{fleet.pk}/change/", wait_until="networkidle")
    page.get_by_role("link", name="Pause").click()
    page.get_by_label("Reason").fill("Its balance is being moved")
    page.get_by_role("button", name="Pause relayer").click()
    expect(page.get_by_text("Paused: 1 relayer.")).to_be_visible()
    assert page.get_by_role("link", name="Pause").count() == 0
    page.get_by_role("link", name="Resume").click()
    page.get_by_role("button", name="Resume relayer").click()
    expect(page.get_by_text("Resumed: 1 relayer.")).to_be_visible()


def test_a_relayer_is_added_on_a_network_of_its_own(page: Page, nodes: list[StandInNode]) -> None:
    Signer.objects.all().delete()
    factories.signer("treasury")
    page.goto(ADD, wait_until="networkidle")
    assert page.locator("#known-networks option").count() > 10
    page.locator("[name=identifier]").fill("devnet-1")
    page.locator("[name=name]").fill("Devnet")
    page.locator("[name=network]").fill("devnet")
    page.locator("[name=chain_id]").fill(str(HARDHAT_CHAIN))
    choose(page, "signer", "treasury")
    page.locator("[name=rpc_urls-0-url]").fill(nodes[0].url)
    page.locator("[name=rpc_urls-0-weight]").fill("70")
    page.get_by_role("button", name="Add URL").click()
    expect(page.locator("[name=rpc_urls-1-url]")).to_be_focused()
    page.keyboard.type(nodes[1].url)
    page.locator("[name=policy_eip1559_pricing]").select_option(label="Yes")
    page.locator("[name=policy_gas_price_cap]").fill(CAP)
    page.locator("[name=policy_whitelist_receivers]").fill(f"{factories.ADDRESS}\n{OTHER_ADDRESS}")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    expect(page.locator("[name=address]")).to_have_value(factories.ADDRESS)
    assert "s3cret" not in page.content()

    # Nothing was changed, so nothing is written: line breaks and masked URLs come back as they were.
    RelayerHealth.objects.update(due_at=None)
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    relayer = Relayer.objects.get()
    assert relayer.health.due_at is None
    assert relayer.custom_rpc_urls == [{"url": nodes[0].url, "weight": 70}, {"url": nodes[1].url, "weight": 100}]
    assert relayer.policies == {
        "eip1559_pricing": True,
        "gas_price_cap": 2**53 + 1,
        "whitelist_receivers": [factories.ADDRESS, OTHER_ADDRESS],
    }


def test_the_id_of_a_new_relayer_follows_its_name_until_one_is_typed(page: Page, staff: User) -> None:
    page.goto(ADD, wait_until="networkidle")
    identifier, name = page.locator("[name=identifier]"), page.locator("[name=name]")
    given = identifier.input_value()
    assert given
    for typed, suggested in {"Zürich  Payroll #2!": "zurich-payroll-2", "-": given, "Ελλάς": given}.items():
        name.fill(typed)
        expect(identifier).to_have_value(suggested)
    name.fill("Payroll")
    expect(identifier).to_have_value("payroll")
    identifier.fill("my-own")
    name.fill("Another name")
    expect(identifier).to_have_value("my-own")
    # What was sent is what was meant, also when the page comes back with an error.
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("This field is required.").first).to_be_visible()
    page.locator("[name=name]").fill("A third name")
    expect(page.locator("[name=identifier]")).to_have_value("my-own")


def test_what_a_minimum_balance_means_and_why_there_is_no_address_is_shown(
    page: Page, fleet: Relayer, take_screenshot: TakeScreenshot
) -> None:
    Signer.objects.update(last_error="Vault refused the AppRole login.")
    Relayer.objects.update(address="")
    RelayerHealth.objects.update(balance_is_low=True, balance_text="93100000000000000")
    page.goto(f"{LIST}{fleet.pk}/change/", wait_until="networkidle")
    expect(page.get_by_text("0.0931 ETH, below the minimum of 0.1 ETH")).to_be_visible()
    expect(page.get_by_text("The signer failed: Vault refused the AppRole login.")).to_be_visible()
    take_screenshot(page, "relayer-without-address")
    page.locator("[name=policy_min_balance]").fill("0.5 ETH")
    page.locator("[name=policy_private_transactions]").scroll_into_view_if_needed()
    page.mouse.wheel(0, 200)
    take_screenshot(page, "relayer-min-balance")
    page.goto(LIST, wait_until="networkidle")
    take_screenshot(page, "relayers-without-address")


def test_a_node_of_another_chain_is_named_in_its_row(page: Page, fleet: Relayer, nodes: list[StandInNode]) -> None:
    nodes[1].chain_id = 5
    page.goto(f"{LIST}{fleet.pk}/change/", wait_until="networkidle")
    page.locator("[name=rpc_urls-0-weight]").fill("60")
    page.get_by_role("button", name="Save", exact=True).click()
    rows = page.locator(".rpc-url")
    expect(rows.nth(1).get_by_text(f"this node is on chain 5, not on {HARDHAT_CHAIN}")).to_be_visible()
    expect(rows.nth(0).locator(".rpc-url-error")).to_have_count(0)
    expect(page.locator("[name=rpc_urls-0-weight]")).to_have_value("60")


def test_the_page_of_a_relayer_shows_its_nodes_live(
    page: Page, fleet: Relayer, nodes: list[StandInNode], take_screenshot: TakeScreenshot
) -> None:
    page.goto(f"{LIST}{fleet.pk}/change/")
    panel = page.locator("[data-status-url]")
    expect(panel.locator("tbody tr")).to_have_count(3)
    facts = [re.sub(r"\n.+ ago", "\nN ago", text) for text in panel.locator("dl > div").all_inner_texts()]
    assert facts == [
        "State\nACTIVE",
        "Nonce\n4182",
        "Balance\n2.4819375 ETH, minimum 0.1 ETH",
        "Last check\nN ago",
    ]
    found = [row.locator("td").all_inner_texts() for row in panel.locator("tbody tr").all()]
    masked = [f"{node.url.removesuffix('/v1/s3cret')}/***" for node in nodes]
    assert [[*row[:3], row[4]] for row in found[:2]] == [
        [masked[0], "70", "OK", "20,000,123"],
        [masked[1], "20", "OK", "20,000,122"],
    ]
    assert all(re.fullmatch(r"\d+ ms", row[3]) for row in found[:2])
    assert found[2][2:] == ["FAILED\nconnection failed", "-", "-"]
    page.wait_for_load_state("networkidle")
    take_screenshot(page, "relayer")
    page.get_by_role("button", name="Check now").click()
    expect(page.get_by_text("Queued for a check: 1 relayer.")).to_be_visible()


def test_staff_who_may_only_view_can_look_and_no_more(sign_in: Callable[[User], Page], fleet: Relayer) -> None:
    auditor = User.objects.create_user("auditor", is_staff=True)
    auditor.user_permissions.set(Permission.objects.filter(codename="view_relayer"))
    page = sign_in(auditor)
    page.goto(LIST, wait_until="networkidle")
    expect(page.get_by_text("hardhat-payroll")).to_be_visible()
    assert page.locator("select[name=action]").count() == 0
    page.goto(f"{LIST}{fleet.pk}/change/", wait_until="networkidle")
    expect(page.locator("[data-status-url] tbody tr")).to_have_count(3)
    assert page.get_by_role("button", name=re.compile("Check now|Save|Add URL")).count() == 0
    assert "s3cret" not in page.content()


@pytest.mark.parametrize("path", [LIST, ADD, f"{LIST}{{relayer}}/change/"])
def test_a_phone_shows_a_page_without_sideways_scrolling(page: Page, fleet: Relayer, path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(path.format(relayer=fleet.pk), wait_until="networkidle")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
