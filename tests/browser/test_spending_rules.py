"""Spending rules in the admin: what staff type, what is marked, what is stored."""

from playwright.sync_api import Page, expect

from relayers.models import Relayer
from tests.browser.conftest import overflow
from tests.relayers import factories
from tests.spending.payloads import ALICE, BOB, TOKEN


def test_receivers_and_tokens_are_added_in_rows(page: Page) -> None:
    relayer = factories.relayer()
    page.goto(f"/admin/relayers/relayer/{relayer.pk}/change/#rules")
    page.get_by_label("Maximum value within 24 hours").fill("1.5 ETH")
    receivers = page.get_by_role("group", name="Receivers")
    receivers.get_by_label("Receiver", exact=True).fill(ALICE)
    receivers.get_by_label("Selectors").fill("0x12345678 transfer")
    receivers.get_by_role("button", name="Add receiver").click()
    receivers.get_by_label("Receiver", exact=True).nth(1).fill(BOB)
    tokens = page.get_by_role("group", name="ERC-20 tokens")
    tokens.get_by_label("Token contract").fill(TOKEN)
    tokens.get_by_label("Maximum within 24 hours").fill("5000000")
    tokens.get_by_label("Recipients and spenders").fill(f"{ALICE}\n{BOB}")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(receivers.locator(".spending-error")).to_have_count(1)
    expect(receivers.locator(".spending-error")).to_contain_text("transfer: must be a function selector")
    page.set_viewport_size({"width": 390, "height": 844})
    assert overflow(page) <= 0
    receivers.get_by_label("Selectors").first.fill("0x12345678")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    expect(page.get_by_label("Maximum value within 24 hours")).to_have_value("1.5 ETH")
    policy = Relayer.objects.get().spending
    assert policy is not None
    assert policy.rules == {
        "max_value_per_day": "1500000000000000000",
        "receivers": [{"address": ALICE, "selectors": ["0x12345678"]}, {"address": BOB}],
        "tokens": [{"contract": TOKEN, "recipients": [ALICE, BOB], "max_amount_per_day": "5000000"}],
    }
