"""What staff do with relayers: view the fleet, add one, see its nodes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from eth_utils.address import to_checksum_address
from playwright.sync_api import BrowserContext, Page, expect

from notifications.models import Notification
from relayers.models import Relayer, RelayerHealth
from tests.browser.conftest import TakeScreenshot
from tests.relayers import factories
from tests.relayers.stand_in_node import HARDHAT_CHAIN, StandInNode, serve
from tests.servers import free_port

LIST = "/admin/relayers/relayer/"
ADD = f"{LIST}add/"
OTHER_ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


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
    disabled = {"system_disabled": True, "disabled_reason_type": "NonceSyncFailed", "failed_checks": 2, "nonce": 77}
    rows: list[tuple[str, str, str, dict[str, Any]]] = [
        ("sepolia-tests", "Smoke tests", "sepolia", {}),
        ("base-refunds", "Refunds", "base", {"paused": True, **seen}),
        ("arbitrum-1", "Arbitrum", "arbitrum", {"checked_at": now - timedelta(seconds=12), **disabled}),
        ("optimism-1", "Optimism", "optimism", seen | low),
        ("mainnet-1", "Mainnet", "mainnet", seen),
    ]
    for number, (identifier, name, network, values) in enumerate(rows):
        # An address that looks like one, and is always the same.
        address = to_checksum_address(f"0x{hashlib.sha256(str(number).encode()).hexdigest()[:40]}")
        factories.relayer(identifier=identifier, name=name, network=network, address=address, **values)
    urls = [nodes[0].url, nodes[1].url, f"http://127.0.0.1:{free_port()}/v1/s3cret"]
    return factories.relayer(
        identifier="hardhat-payroll",
        name="Payroll",
        network="hardhat",
        notification=hook,
        rpc_urls=[{"url": url, "weight": weight} for url, weight in zip(urls, (70, 20, 10), strict=True)],
        policies={"eip1559_pricing": True, "gas_price_cap": 50_000_000_000, "min_balance": 10**17},
        **seen,
    )


def test_the_list_copies_addresses(
    context: BrowserContext, page: Page, fleet: Relayer, take_screenshot: TakeScreenshot
) -> None:
    page.goto(LIST, wait_until="networkidle")
    take_screenshot(page, "relayers")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    row = page.locator("#result_list tbody tr").first
    row.get_by_role("button", name="Copy the address").click()
    expect(row.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == factories.ADDRESS


def test_a_relayer_is_added_on_a_network_of_its_own(page: Page, staff: User, nodes: list[StandInNode]) -> None:
    factories.signer("treasury")
    page.goto(ADD, wait_until="networkidle")
    assert page.locator("#known-networks option").count() > 10
    page.locator("[name=identifier]").fill("devnet-1")
    page.locator("[name=name]").fill("Devnet")
    page.locator("[name=network]").fill("devnet")
    page.locator("[name=chain_id]").fill(str(HARDHAT_CHAIN))
    page.get_by_role("combobox").filter(has=page.locator("#select2-id_signer-container")).click()
    page.locator(".select2-search__field").fill("treasury")
    page.locator(".select2-results").get_by_text("treasury").click()
    page.locator("[name=rpc_urls-0-url]").fill(nodes[0].url)
    page.locator("[name=rpc_urls-0-weight]").fill("70")
    page.get_by_role("button", name="Add URL").click()
    expect(page.locator("[name=rpc_urls-1-url]")).to_be_focused()
    page.keyboard.type(nodes[1].url)
    page.locator("[name=policy_eip1559_pricing]").select_option(label="Yes")
    page.locator("[name=policy_gas_price_cap]").fill(str(2**53 + 1))
    page.locator("[name=policy_whitelist_receivers]").fill(f"{factories.ADDRESS}\n{OTHER_ADDRESS}")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    expect(page.locator("[name=address]")).to_have_value(factories.ADDRESS)
    assert "s3cret" not in page.content()

    # Nothing was changed, so nothing is written: line breaks and masked URLs come back as they were.
    RelayerHealth.objects.update(due_at=None)
    page.get_by_role("link", name="Settings").click()
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
    names = {"Zürich  Payroll #2!": "zurich-payroll-2", "-": given, "Ελλάς": given, "Payroll": "payroll"}
    for typed, suggested in names.items():
        name.fill(typed)
        expect(identifier).to_have_value(suggested)
    identifier.fill("my-own")
    name.fill("Another name")
    expect(identifier).to_have_value("my-own")
    # What was sent is what was meant, also when the page comes back with an error.
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("This field is required.").first).to_be_visible()
    name.fill("A third name")
    expect(identifier).to_have_value("my-own")


def test_the_page_of_a_relayer_shows_its_nodes_live(
    page: Page, fleet: Relayer, nodes: list[StandInNode], take_screenshot: TakeScreenshot
) -> None:
    page.goto(f"{LIST}{fleet.pk}/change/")
    panel = page.locator("[data-status-url]")
    expect(panel.locator("tbody tr")).to_have_count(3)
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
    assert "s3cret" not in page.content()


def test_the_tabs_of_a_relayer_follow_the_history_and_save_within_the_window(page: Page, fleet: Relayer) -> None:
    relayer = f"{LIST}{fleet.pk}/change/"
    page.goto(f"{relayer}#transactions", wait_until="networkidle")
    chart = page.locator("#calls canvas")
    height = chart.evaluate("canvas => canvas.offsetHeight")
    page.goto("/admin/")
    page.goto(relayer, wait_until="networkidle")
    tabs, save = page.locator("#tabs-items"), page.get_by_role("button", name="Save", exact=True)
    expect(save).to_be_hidden()
    tabs.get_by_role("link", name="Transactions").click()
    expect(chart).to_have_js_property("offsetHeight", height)
    for title in ("Settings", "Rules", "Policies", "Settings"):
        tabs.get_by_role("link", name=title).click()
        expect(save).to_be_in_viewport(ratio=1)
    page.go_back()
    expect(page.locator("[name=policy_gas_price_cap]")).to_be_visible()
    expect(tabs.get_by_role("link", name="Policies")).to_have_class("active")
    for _ in range(4):
        page.go_back()
    expect(save).to_be_hidden()
    expect(page.locator("[data-status-url]")).to_be_visible()
