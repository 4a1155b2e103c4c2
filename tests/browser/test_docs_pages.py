"""The pages of the API's documentation, which ask no other host."""

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from relayer_service import __version__
from tests.api import WireApi
from tests.browser.conftest import TakeScreenshot, overflow


@pytest.fixture
def visitor(context: BrowserContext, transactional_db: None) -> Page:
    """A page of somebody who has not signed in: the documentation is public."""
    return context.new_page()


def authorize(page: Page, token: str) -> None:
    page.get_by_role("button", name="Authorize").click()
    form = page.locator(".auth-container")
    form.locator("input").fill(token)
    form.get_by_role("button", name="Apply credentials").click()
    form.get_by_role("button", name="Close").click()


def try_out(page: Page, selector: str) -> Locator:
    operation = page.locator(selector)
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    return operation


def test_swagger_ui_calls_the_api_and_keeps_the_token_in_its_tab(
    visitor: Page, port: int, token: str, take_screenshot: TakeScreenshot
) -> None:
    WireApi(token, port).post("/api/v1/items", {"id": "first", "name": "The first"})
    visitor.goto("/api/docs", wait_until="networkidle")
    # Of the tests, and not of the service.
    sample = visitor.locator(".opblock-tag-section", has=visitor.locator("#operations-tag-items"))
    sample.evaluate("section => { section.style.display = 'none' }")
    take_screenshot(visitor, "api-docs")
    authorize(visitor, token)
    visitor.reload()
    expect(visitor.locator(".btn.authorize.locked")).to_be_visible()
    assert token not in visitor.evaluate("JSON.stringify([{...localStorage}, document.cookie])")
    other = visitor.context.new_page()
    other.goto("/api/docs")
    expect(other.locator(".btn.authorize.unlocked")).to_be_visible()
    visitor.locator(".btn.authorize").click()
    visitor.locator(".auth-container").get_by_role("button", name="Remove authorization").click()
    visitor.reload()
    expect(visitor.locator(".btn.authorize.unlocked")).to_be_visible()

    authorize(visitor, token)
    operation = try_out(visitor, "#operations-items-list_items")
    operation.get_by_role("button", name="Execute").click()
    answer = operation.locator(".live-responses-table tbody .response")
    expect(answer.locator(".response-col_status")).to_contain_text("200")
    expect(answer.locator(".response-col_description")).to_contain_text('"name": "The first"')
    expect(operation.locator(".curl")).to_contain_text(f"Authorization: Bearer {token}")

    # A change that changes nothing is filled in.
    operation = try_out(visitor, "[id^=operations-][id$=update_notification]")
    expect(operation.locator("textarea.body-param__text")).to_have_value('{\n  "type": "webhook"\n}')


def test_redoc_shows_the_contract_and_searches_in_the_browser(visitor: Page) -> None:
    visitor.goto("/api/redoc", wait_until="networkidle")
    expect(visitor.get_by_role("heading", name=f"Relayer Management Service ({__version__})")).to_be_visible()
    expect(visitor.get_by_text("/api/v1/items", exact=True).first).to_be_visible()
    visitor.get_by_placeholder("Search...").press_sequentially("create")
    expect(visitor.locator("[data-role='search:results']").get_by_text("Create an item")).to_be_visible()


@pytest.mark.parametrize("path", ["/api/docs", "/api/redoc"])
def test_the_documentation_has_the_theme_of_the_admin_and_fits_a_phone(page: Page, path: str) -> None:
    for theme, background in {"light": "rgb(255, 255, 255)", "dark": "rgb(28, 32, 34)"}.items():
        page.goto("/admin/")
        page.evaluate("theme => localStorage.setItem('adminTheme', JSON.stringify(theme))", theme)
        page.goto(path, wait_until="networkidle")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == background
    page.get_by_role("link", name="Admin", exact=True).click()
    page.wait_for_url("**/admin/")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(path, wait_until="networkidle")
    assert overflow(page) == 0
