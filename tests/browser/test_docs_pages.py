"""The pages of the API's documentation, which ask no other host."""

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from relayer_service import __version__
from tests.api import WireApi
from tests.browser.conftest import TakeScreenshot


@pytest.fixture
def visitor(context: BrowserContext, transactional_db: None) -> Page:
    """A page of somebody who has not signed in: the documentation is public."""
    return context.new_page()


def test_swagger_ui_calls_the_api_with_a_token(visitor: Page, port: int, token: str) -> None:
    WireApi(token, port).post("/api/v1/items", {"id": "first", "name": "The first"})
    visitor.goto("/api/docs")
    visitor.get_by_role("button", name="Authorize").click()
    form = visitor.locator(".auth-container")
    form.locator("input").fill(token)
    form.get_by_role("button", name="Apply credentials").click()
    form.get_by_role("button", name="Close").click()

    operation = visitor.locator("#operations-items-list_items")
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()

    answer = operation.locator(".live-responses-table tbody .response")
    expect(answer.locator(".response-col_status")).to_contain_text("200")
    expect(answer.locator(".response-col_description")).to_contain_text('"name": "The first"')
    expect(operation.locator(".curl")).to_contain_text(f"Authorization: Bearer {token}")


def test_swagger_ui_shows_the_contract(visitor: Page, take_screenshot: TakeScreenshot) -> None:
    visitor.goto("/api/docs", wait_until="networkidle")
    expect(visitor.get_by_role("heading", name="Relayer Management Service")).to_be_visible()
    expect(visitor.get_by_text("The version of this document is that of the software that serves it.")).to_be_visible()
    take_screenshot(visitor, "api-docs")


def test_swagger_ui_keeps_the_token_over_a_reload_and_in_no_other_tab(visitor: Page, token: str) -> None:
    visitor.goto("/api/docs")
    visitor.get_by_role("button", name="Authorize").click()
    form = visitor.locator(".auth-container")
    form.locator("input").fill(token)
    form.get_by_role("button", name="Apply credentials").click()
    visitor.reload()
    expect(visitor.locator(".btn.authorize.locked")).to_be_visible()
    kept = visitor.evaluate("JSON.stringify([{...localStorage}, document.cookie])")
    assert token not in kept
    other = visitor.context.new_page()
    other.goto("/api/docs")
    expect(other.locator(".btn.authorize.unlocked")).to_be_visible()

    visitor.locator(".btn.authorize").click()
    visitor.locator(".auth-container").get_by_role("button", name="Remove authorization").click()
    visitor.reload()
    expect(visitor.locator(".btn.authorize.unlocked")).to_be_visible()


def test_swagger_ui_fills_in_a_change_that_changes_nothing(visitor: Page) -> None:
    visitor.goto("/api/docs")
    operation = visitor.locator("[id^=operations-][id$=update_notification]")
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    expect(operation.locator("textarea.body-param__text")).to_have_value("{}")


def test_redoc_shows_the_contract(visitor: Page) -> None:
    visitor.goto("/api/redoc", wait_until="networkidle")
    expect(visitor.get_by_role("heading", name=f"Relayer Management Service ({__version__})")).to_be_visible()
    expect(visitor.get_by_text("/api/v1/items", exact=True).first).to_be_visible()


def test_redoc_searches_in_the_browser(visitor: Page) -> None:
    visitor.goto("/api/redoc", wait_until="networkidle")
    visitor.get_by_placeholder("Search...").press_sequentially("create")
    expect(visitor.locator("[data-role='search:results']").get_by_text("Create an item")).to_be_visible()


@pytest.mark.parametrize("path", ["/api/docs", "/api/redoc"])
@pytest.mark.parametrize(("chosen", "background"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(28, 32, 34)")])
def test_the_documentation_has_the_theme_of_the_admin_and_links_to_it(
    page: Page, path: str, chosen: str, background: str
) -> None:
    page.goto("/admin/")
    page.evaluate("theme => localStorage.setItem('adminTheme', JSON.stringify(theme))", chosen)
    page.goto(path, wait_until="networkidle")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == background
    page.get_by_role("link", name="Admin", exact=True).click()
    page.wait_for_url("**/admin/")


@pytest.mark.parametrize("path", ["/api/docs", "/api/redoc"])
def test_a_phone_shows_the_documentation_without_sideways_scrolling(visitor: Page, path: str) -> None:
    visitor.set_viewport_size({"width": 390, "height": 844})
    visitor.goto(path, wait_until="networkidle")
    assert visitor.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
