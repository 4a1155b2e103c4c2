"""What staff do with fees: view fee tokens and their prices, set sources of each kind, try an estimate."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from relayers.models import Relayer
from rpc.models import FeeToken, PriceSource
from tests.browser.conftest import TakeScreenshot, overflow
from tests.chain.answering_node import HEAD, node_answering, unsigned
from tests.chain.faults import NodeServer
from tests.rpc import factories
from tests.rpc.estimates import relayer_at

LIST = "/admin/rpc/feetoken/"
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
def relayer(transactional_db: None, node: NodeServer) -> Iterator[Relayer]:
    seen = {"checked_at": timezone.now() - timedelta(seconds=40), "nonce": 4182, "balance_text": "2481937500000000000"}
    yield relayer_at(node.url, identifier="hardhat-payroll", name="Payroll", **seen)
    FeeToken.objects.all().delete()


def rated(kind: PriceSource.Kind, rate: str, seconds: int) -> dict[str, Any]:
    """Return a price that was read just now, and made some time ago."""
    now = timezone.now()
    details = [{"name": kind.label, "rate": rate, "updated_at": int(now.timestamp()) - seconds}]
    return {"rate_text": rate, "rated_at": now - timedelta(seconds=20), "rate_details": details}


@pytest.fixture
def tokens(relayer: Relayer) -> FeeToken:
    """The fee tokens of a small company, the one with two sources first; that one is returned."""
    kinds = PriceSource.Kind
    values = {"address": USDC, "margin_bps": 50, "decimals": 6}
    usdc = factories.fee_token(network="mainnet", **values, **rated(kinds.CHAINLINK_USD, "3012.4968753905", 1_260))
    factories.chainlink_usd_source(usdc)
    factories.pair_source(usdc, min_liquidity=10**20)
    values = {"symbol": "DAI", "address": DAI, "margin_bps": 75, "decimals": 18}
    dai = factories.fee_token(network="hardhat", **values, **rated(kinds.FIXED, "3012.5", 7_400))
    factories.fixed_source(dai, "3012.5", rate_set_at=timezone.now() - timedelta(seconds=7_400))
    values = {"symbol": "WBTC", "address": "0x2260FAC5E5542a773Aa44fBCfeDf7C193bc2C599", "decimals": 8}
    wbtc = factories.fee_token(network="mainnet", **values, rate_error="WBTC on mainnet: the source is stale.")
    factories.chainlink_native_source(wbtc)
    return usdc


def visible_fields(source: Locator) -> set[str]:
    fields = source.locator("input:visible, select:visible")
    names = [str(fields.nth(n).get_attribute("name")) for n in range(fields.count())]
    return {name.rpartition("-")[2] for name in names} - {"DELETE"}


def test_a_token_is_added_with_sources_that_show_the_fields_of_their_kind(page: Page, relayer: Relayer) -> None:
    page.goto(f"{LIST}add/", wait_until="networkidle")
    source = page.locator("#sources-data .form-group").first
    # The first kind is chosen, until staff choose another.
    assert visible_fields(source) == {"kind", "rate_text", "max_age_seconds", "still_correct"}
    for kind in reversed(PriceSource.Kind.values):
        source.locator("select[name$=-kind]").select_option(kind)
        extra = {"still_correct"} if kind == "fixed" else set()
        assert visible_fields(source) == {"kind", *PriceSource.fields_of(kind), *extra}
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


def test_an_estimate_is_tried_on_the_page_of_a_relayer(
    page: Page, relayer: Relayer, tokens: FeeToken, take_screenshot: TakeScreenshot
) -> None:
    for path, name in ((LIST, "fee-tokens"), (f"{LIST}{tokens.pk}/change/", "fee-token")):
        page.goto(path, wait_until="networkidle")
        take_screenshot(page, name)
    page.goto(f"/admin/relayers/relayer/{relayer.pk}/change/#transactions", wait_until="networkidle")
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
    # 52,000 gas at 13 gwei and 57,200 at 15.5, 3,012.5 DAI for 1 ETH, and 75 basis points.
    assert rows[-1][:3] == ["Fee in DAI", "2.051723375 DAI", "2.69091411875 DAI"]
    assert re.fullmatch(r"2\s?hours ago", rows[-4][2])
    page.get_by_role("button", name="Estimate").evaluate("element => element.scrollIntoView()")
    take_screenshot(page, "relayer-estimate")
    assert "s3cret" not in page.content()
    page.set_viewport_size({"width": 390, "height": 844})
    assert overflow(page) == 0
