"""What staff do with fees: view fee tokens and their prices, set sources of each kind, try an estimate."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import BrowserContext, Locator, Page, expect

from relayer_service.observability.call_counts import RELAYER, CallCount
from relayers.models import Relayer
from rpc.models import FeeToken, PriceSource
from tests.browser.conftest import TakeScreenshot
from tests.chain.answering_node import HEAD, node_answering, unsigned
from tests.chain.faults import NodeServer
from tests.rpc import factories
from tests.rpc.estimates import relayer_at

LIST = "/admin/rpc/feetoken/"
ADD = f"{LIST}add/"
RELAYERS = "/admin/relayers/relayer/"
USDC = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
DAI = "0x6B175474E89094C44Da98b954EedeAC495271d0F"
# What a node answers of a chain on which a transfer costs a little: 12.5 gwei and a tip of half a gwei.
HISTORY = {
    "oldestBlock": "0x1312d00",
    "baseFeePerGas": [hex(12_400_000_000), hex(12_500_000_000)],
    "gasUsedRatio": [0.52],
    "reward": [[hex(tenths * 10**8) for tenths in (3, 4, 5, 6, 7, 8, 9)]],
}


@pytest.fixture
def node() -> Iterator[NodeServer]:
    """A node whose contracts all answer 6, as decimals of a token."""
    with node_answering(
        eth_call={"result": f"0x{6:064x}"},
        eth_feeHistory={"result": HISTORY},
        eth_estimateGas={"result": hex(52_000)},
        eth_getBlockByNumber={"result": HEAD | {"number": hex(20_000_123), "timestamp": hex(int(time.time()) - 2)}},
        eth_blockNumber={"result": hex(20_000_123)},
    ) as node:
        yield node


@pytest.fixture
def relayer(transactional_db: None, node: NodeServer) -> Relayer:
    seen = {"checked_at": timezone.now() - timedelta(seconds=40), "nonce": 4182, "balance_text": "2481937500000000000"}
    return relayer_at(node.url, identifier="hardhat-payroll", name="Payroll", **seen)


def detail(name: str, rate: str, seconds: int) -> dict[str, Any]:
    return {"name": name, "rate": rate, "updated_at": int(timezone.now().timestamp()) - seconds}


@pytest.fixture
def tokens(transactional_db: None) -> Iterator[FeeToken]:
    """The fee tokens of a small company, the one with two sources first; that one is returned."""
    now = timezone.now()
    usd, pair = "3012.496875390576177977752780652418447694", "3013.104"
    kinds = PriceSource.Kind
    details = [detail(kinds.CHAINLINK_USD.label, usd, 1_260), detail(kinds.UNISWAP_V2.label, pair, 12)]
    rows: list[dict[str, Any]] = [
        {
            "symbol": "USDC",
            "address": USDC,
            "margin_bps": 50,
            "decimals": 6,
            "rate_text": "3012.800437695288088988876390326209223847",
            "rated_at": now - timedelta(seconds=20),
            "rate_details": details,
        },
        {
            "symbol": "DAI",
            "address": DAI,
            "margin_bps": 75,
            "decimals": 18,
            "rate_text": "3012.5",
            "rated_at": now - timedelta(seconds=20),
            "rate_details": [detail(kinds.FIXED.label, "3012.5", 7_400)],
        },
        {
            "symbol": "WBTC",
            "address": "0x2260FAC5E5542a773Aa44fBCfeDf7C193bc2C599",
            "decimals": 8,
            "rate_text": "0.0321",
            "rated_at": now - timedelta(hours=2),
            "rate_details": [detail(kinds.CHAINLINK_NATIVE.label, "0.0321", 9_000)],
            "rate_error": "WBTC on mainnet: the source “Chainlink, token/native” is stale: the token's feed is older "
            "than its heartbeat.",
        },
        {"symbol": "USDT", "address": "0xdAC17F958D2ee523a2206206994597C13D831ec7", "network": "base"},
        {"symbol": "PAX", "address": "0x8E870D67F660D95d5be530380D0eC0bd388289E1", "enabled": False},
    ]
    made = [factories.fee_token(**{"network": "mainnet"} | row) for row in rows]
    factories.chainlink_usd_source(made[0])
    factories.pair_source(made[0], min_liquidity=10**20)
    for token in (made[1], made[3], made[4]):
        factories.fixed_source(token, "3012.5", rate_set_at=now - timedelta(seconds=7_400))
    factories.chainlink_native_source(made[2])
    yield made[0]
    # Not among what the other tests leave behind.
    FeeToken.objects.all().delete()


@pytest.fixture
def clean_tokens(transactional_db: None) -> Iterator[None]:
    yield
    FeeToken.objects.all().delete()


def visible_fields(source: Locator) -> set[str]:
    fields = source.locator("input:visible, select:visible")
    names = [str(fields.nth(n).get_attribute("name")) for n in range(fields.count())]
    return {name.rpartition("-")[2] for name in names} - {"DELETE"}


def test_the_list_shows_tokens_with_their_prices_and_copies_addresses(
    context: BrowserContext, page: Page, tokens: FeeToken, take_screenshot: TakeScreenshot
) -> None:
    page.goto(LIST, wait_until="networkidle")
    found = [row.locator("th, td").all_inner_texts() for row in page.locator("#result_list tbody tr").all()]
    shown = [[text.replace("\xa0", " ").strip() for text in row[1:]] for row in found]
    assert [[row[0], row[1], row[3], row[4], row[6]] for row in shown] == [
        ["USDT", "base", "NOT READ YET", "unknown", "0 bps"],
        ["DAI", "mainnet", "OK", "3,012.5 DAI for 1 ETH\n2 hours ago", "75 bps"],
        ["PAX", "mainnet", "OFF", "unknown", "0 bps"],
        ["USDC", "mainnet", "OK", "≈ 3,012.8004 USDC for 1 ETH\n21 minutes ago", "50 bps"],
        ["WBTC", "mainnet", "FAILED", "0.0321 WBTC for 1 ETH\n2 hours ago", "0 bps"],
    ]
    take_screenshot(page, "fee-tokens")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    row = page.locator("#result_list tbody tr").nth(3)
    row.get_by_role("button", name="Copy the address").click()
    expect(row.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == USDC


def test_the_page_of_a_token_shows_its_price_and_its_sources(
    page: Page, tokens: FeeToken, take_screenshot: TakeScreenshot
) -> None:
    page.goto(f"{LIST}{tokens.pk}/change/", wait_until="networkidle")
    expect(page.get_by_text("3012.800437695288088988876390326209223847 USDC for 1 ETH")).to_be_visible()
    rows = [row.locator("td").all_inner_texts() for row in page.locator(".price-sources tbody tr").all()]
    assert [row[0] for row in rows] == ["Chainlink, token/USD with native/USD", "Uniswap v2 pair"]
    take_screenshot(page, "fee-token")


@pytest.mark.usefixtures("clean_tokens")
@pytest.mark.parametrize("kind", PriceSource.Kind.values)
def test_a_source_shows_the_fields_of_the_chosen_kind_and_no_others(page: Page, kind: str) -> None:
    page.goto(ADD, wait_until="networkidle")
    source = page.locator("#sources-data .form-group").first
    # The first kind is chosen, until staff choose another.
    assert visible_fields(source) == {"kind", "rate_text", "max_age_seconds", "still_correct"}
    source.locator("select[name$=-kind]").select_option(kind)
    extra = {"still_correct"} if kind == "fixed" else set()
    assert visible_fields(source) == {"kind", *PriceSource.fields_of(kind), *extra}


@pytest.mark.usefixtures("clean_tokens")
def test_a_token_is_added_with_two_sources_and_its_price_read(page: Page, relayer: Relayer) -> None:
    page.goto(ADD, wait_until="networkidle")
    page.locator("select[name=network]").select_option("hardhat")
    page.locator("[name=symbol]").fill("USDC")
    page.locator("[name=address]").fill(USDC)
    page.locator("[name=sources-0-kind]").select_option("fixed")
    page.locator("[name=sources-0-rate_text]").fill("3000")
    page.locator("[name=sources-0-max_age_seconds]").fill("3600")
    page.get_by_text("Add another price source").click()
    second = page.locator("[name=sources-1-kind]")
    # What is typed for one kind is no source of another.
    second.select_option("uniswap_v2")
    page.locator("[name=sources-1-pair]").fill("no address")
    second.select_option("fixed")
    expect(page.locator("[name=sources-1-pair]")).to_be_hidden()
    page.locator("[name=sources-1-rate_text]").fill("3030")
    page.locator("[name=sources-1-max_age_seconds]").fill("3600")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    assert list(PriceSource.objects.values_list("kind", "rate_text", "pair")) == [
        ("fixed", "3000", ""),
        ("fixed", "3030", ""),
    ]
    page.get_by_role("button", name="Read price now").click()
    expect(page.get_by_text("Prices read: USDC on hardhat.")).to_be_visible()
    expect(page.get_by_text("3015 USDC for 1 ETH")).to_be_visible()


def add_calls(relayer: Relayer) -> None:
    """Some calls of the last day, more of them lately, and a few that failed."""
    now = timezone.now().replace(second=0, microsecond=0)
    for hours in range(24):
        start = now - timedelta(hours=hours)
        values = {"kind": RELAYER, "subject": str(relayer.pk), "start": start, "method": "feeEstimate"}
        calls, slowest = 40 + 7 * ((hours * 5) % 11), 110 + 9 * (hours % 7)
        CallCount.objects.create(**values, outcome="ok", calls=calls, slowest_milliseconds=slowest)
        if hours % 6 == 2:
            CallCount.objects.create(**values, outcome="-32003", calls=5, slowest_milliseconds=61)


def test_an_estimate_is_tried_on_the_page_of_a_relayer(
    page: Page, relayer: Relayer, tokens: FeeToken, take_screenshot: TakeScreenshot
) -> None:
    FeeToken.objects.filter(symbol="DAI").update(network="hardhat")
    add_calls(relayer)
    page.goto(f"{RELAYERS}{relayer.pk}/change/", wait_until="networkidle")
    expect(page.get_by_text("JSON-RPC calls in the last 24 hours")).to_be_visible()
    page.get_by_text("Try it", exact=True).click()
    page.get_by_label("Fee token").select_option(label="DAI")
    page.get_by_text("Advanced: encoded transaction").click()
    transaction = page.get_by_label("Encoded transaction", exact=True)
    transaction.fill("0x1234")
    page.get_by_role("button", name="Estimate", exact=True).click()
    answer = page.locator("[data-estimate-answer]")
    expect(answer.get_by_text("Encoded transaction: Not valid")).to_be_visible()
    transaction.fill(unsigned())
    page.get_by_role("button", name="Estimate", exact=True).click()
    expect(answer.get_by_text("Fee in DAI")).to_be_visible()
    rows = [row.locator("th, td").all_inner_texts() for row in answer.locator("tr").all()]
    assert [row[0] for row in rows] == [
        "Part",
        "Block",
        "Sender",
        "Gas",
        "Gas paid for",
        "Base fee",
        "Priority fee",
        "Gas price",
        "Gas fee",
        "Total in the native coin",
        "Source: Fixed rate",
        "Conversion rate",
        "Margin",
        "Fee in DAI",
    ]
    # 52,000 gas at 13 gwei and 57,200 at 15.5, 3,012.5 DAI for 1 ETH, and 75 basis points.
    assert rows[-1][1:3] == ["2.051723375 DAI", "2.69091411875 DAI"]
    assert re.fullmatch(r"2\s?hours ago", rows[10][2])
    page.get_by_role("button", name="Estimate").evaluate("element => element.scrollIntoView()")
    take_screenshot(page, "relayer-estimate")
    assert "s3cret" not in page.content()


@pytest.mark.parametrize("path", [LIST, ADD, f"{LIST}{{token}}/change/", f"{RELAYERS}{{relayer}}/change/"])
def test_a_phone_shows_a_page_without_sideways_scrolling(
    page: Page, relayer: Relayer, tokens: FeeToken, path: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(path.format(token=tokens.pk, relayer=relayer.pk), wait_until="networkidle")
    if "relayers" in path:
        page.get_by_text("Try it", exact=True).click()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
