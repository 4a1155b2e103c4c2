"""After a save that failed, the first invalid field has the focus, and links lead to each."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from relayers.models import Relayer
from tests.browser.conftest import TakeScreenshot, add_session
from tests.browser.test_accessibility import AXE, FIND, RULES, SET_THEME, WIDTHS, needs_axe
from tests.relayers import factories

# No form of the product folds its fields.
FOLD = """field => {
  const fold = document.createElement("details");
  field.before(fold);
  fold.append(field);
}"""


@pytest.fixture
def relayer(transactional_db: None) -> Relayer:
    return factories.relayer(policies={"min_balance": 10})


def save_wrong(page: Page, relayer: Relayer) -> None:
    """Open the page of a relayer, type a policy and a URL that are none, and save."""
    page.goto(f"/admin/relayers/relayer/{relayer.pk}/change/")
    page.locator("[name=rpc_urls-0-url]").fill("ftp://a")
    page.locator("[name=policy_gas_price_cap]").fill("x")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="Not saved: 2 errors")).to_be_attached()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_invalid_field_of_a_relayer_has_the_focus(
    page: Page, relayer: Relayer, width: str, take_screenshot: TakeScreenshot
) -> None:
    page.set_viewport_size(WIDTHS[width])  # type: ignore[arg-type]
    save_wrong(page, relayer)
    url, cap = page.locator("[name=rpc_urls-0-url]"), page.locator("[name=policy_gas_price_cap]")
    expect(url).to_be_focused()
    expect(url).to_be_in_viewport()
    take_screenshot(page, f"form-errors-field-{width}")
    page.get_by_role("link", name="Gas price cap").click()
    expect(cap).to_be_focused()
    expect(cap).to_be_in_viewport()
    page.get_by_role("link", name="RPC URLs").click()
    expect(url).to_be_focused()
    page.get_by_role("heading", name="Not saved: 2 errors").scroll_into_view_if_needed()
    take_screenshot(page, f"form-errors-{width}")


def test_a_field_that_is_folded_or_behind_a_widget_is_shown_and_focused(page: Page) -> None:
    page.goto("/admin/relayers/relayer/add/")
    page.get_by_role("button", name="Save", exact=True).click()
    name = page.locator("[name=name]")
    expect(name).to_be_focused()
    page.get_by_role("link", name="Signer", exact=True).last.click()
    expect(page.get_by_role("combobox", name="Signer")).to_be_focused()
    name.evaluate(FOLD)
    page.get_by_role("link", name="Name", exact=True).click()
    expect(name).to_be_focused()


def test_a_password_that_is_refused_has_the_focus(page: Page) -> None:
    page.goto("/admin/password_change/")
    page.get_by_role("button", name="Change password").click()
    expect(page.locator("[name=old_password]")).to_be_focused()


@needs_axe
def test_axe_finds_nothing_serious_on_a_page_with_errors(
    quiet_page: Page, site: str, staff: User, relayer: Relayer
) -> None:
    add_session(quiet_page.context, site, staff)
    save_wrong(quiet_page, relayer)
    quiet_page.evaluate(AXE.read_text())
    found = {}
    for width, size in WIDTHS.items():
        quiet_page.set_viewport_size(size)  # type: ignore[arg-type]
        for theme, rules in RULES.items():
            quiet_page.evaluate(SET_THEME, theme)
            found[f"{theme} {width}"] = quiet_page.evaluate(FIND, rules)
    assert {place: rules for place, rules in found.items() if rules} == {}
