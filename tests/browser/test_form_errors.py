"""After a save that failed, the first invalid field has the focus, and links lead to each."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from relayers.models import Relayer
from tests.browser.conftest import add_session, overflow
from tests.browser.test_accessibility import PHONE, findings_here, needs_axe
from tests.relayer_service.admin.test_form_errors import PAGES
from tests.relayers import factories
from tests.transactions import factories as sending

# No form of the product folds its fields.
FOLD = """field => {
  const fold = document.createElement("details");
  field.before(fold);
  fold.append(field);
}"""


# The first invalid field, or the widget in place of it.
HAS_FOCUS = """() => {
  const field = document.querySelector("main [aria-invalid=true]");
  const widget = field.matches(".select2-hidden-accessible") && field.nextElementSibling;
  return document.activeElement === field || (widget && widget.contains(document.activeElement));
}"""

# The line of the field has the error's text.
HAS_TEXT = """() => {
  const field = document.querySelector("main [aria-invalid=true]");
  for (let line = field.parentElement; line && !line.matches("form"); line = line.parentElement) {
    if (/required/i.test(line.innerText)) {
      return line.querySelectorAll("[aria-invalid=true]").length === 1;
    }
  }
  return false;
}"""


@pytest.fixture
def relayer(transactional_db: None) -> Relayer:
    return factories.relayer(policies={"min_balance": 10})


def save_wrong(page: Page, relayer: Relayer) -> None:
    """Open the page of a relayer, type a policy and a URL that are none, and save."""
    page.goto(f"/admin/relayers/relayer/{relayer.pk}/change/#settings")
    page.locator("[name=rpc_urls-0-url]").fill("ftp://a")
    # With the keyboard.
    page.get_by_role("link", name="Policies").press("Enter")
    page.locator("[name=policy_gas_price_cap]").fill("x")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="Not saved: 2 errors")).to_be_attached()


def test_the_first_invalid_field_of_a_relayer_has_the_focus(page: Page, relayer: Relayer) -> None:
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    save_wrong(page, relayer)
    url, cap = page.locator("[name=rpc_urls-0-url]"), page.locator("[name=policy_gas_price_cap]")
    expect(url).to_be_focused()
    expect(url).to_be_in_viewport()
    page.get_by_role("link", name="Gas price cap").click()
    expect(cap).to_be_focused()
    expect(cap).to_be_in_viewport()
    page.get_by_role("link", name="RPC URLs").click()
    expect(url).to_be_focused()


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
    page.goto("/admin/password_change/")
    page.get_by_role("button", name="Change password").click()
    expect(page.locator("[name=old_password]")).to_be_focused()


def expect_error(page: Page, path: str, button: str = "") -> None:
    """Send the form of a page as it is, and expect an error at the field that has the focus."""
    page.goto(path)
    if not button:
        page.locator("main form button[type=submit]").last.click()
    else:
        page.get_by_role("button", name=button, exact=True).click()
        expect(page.get_by_role("heading", name=re.compile("^Not saved: [0-9]+ error"))).to_be_visible()
    invalid = page.locator("main [aria-invalid=true]").first
    expect(invalid).to_be_attached()
    page.wait_for_function(HAS_FOCUS)
    page.wait_for_function(HAS_TEXT)
    assert (path, overflow(page)) == (path, 0)


def test_every_form_shows_its_errors(page: Page, relayer: Relayer) -> None:
    lane = sending.lane(relayer)
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    for path in PAGES:
        expect_error(page, f"/admin/{path}/add/", "Save")
    # Those that ask for a reason.
    for path in (f"relayers/relayer/{relayer.pk}/pause/", f"transactions/lane/{lane.pk}/hold/"):
        expect_error(page, f"/admin/{path}")
    page.goto(f"/admin/relayers/relayer/{relayer.pk}/try_it/")
    page.get_by_role("button", name="ERC-20 transfer").click()
    page.get_by_label("Arguments").fill("5")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_text("The function takes 2 arguments, one per line; 1 given.")).to_be_visible()
    expect(page.get_by_label("Arguments")).to_be_focused()
    assert overflow(page) == 0


@needs_axe
def test_axe_finds_nothing_serious_on_a_page_with_errors(
    quiet_page: Page, site: str, staff: User, relayer: Relayer
) -> None:
    add_session(quiet_page.context, site, staff)
    save_wrong(quiet_page, relayer)
    assert findings_here(quiet_page, "errors") == {}
