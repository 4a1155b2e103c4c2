"""The search in all lists and the tabs of a list, in a browser."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import TakeScreenshot
from tests.notifications.factories import create_notification
from tests.relayers import factories

PHONE = {"width": 390, "height": 844}


def test_an_object_is_found_by_a_part_of_its_name(page: Page, take_screenshot: TakeScreenshot) -> None:
    factories.relayer(identifier="eu-payroll", name="Payroll of Europe")
    create_notification(identifier="payments")
    page.goto("/admin/")
    page.get_by_role("button", name="Find anything").click()
    field = page.locator("#search-input-command")
    field.press_sequentially("pay")
    expect(page.locator("#command-results-list li")).to_have_count(2)
    take_screenshot(page, "search")
    field.fill("")
    field.press_sequentially("nothing like it")
    expect(page.locator("#command-results")).to_contain_text("No ID, name or address matches “nothing like it”.")
    take_screenshot(page, "search-nothing")
    field.fill("")
    field.press_sequentially("payroll of")
    page.get_by_role("link", name="eu-payroll").click()
    expect(page).to_have_title("eu-payroll | Change relayer | Relayer Management")
    # Its panels are loaded after it, and fail once the test has ended and nobody is signed in.
    page.wait_for_load_state("networkidle")


def test_the_tabs_of_a_list_fit_a_phone(page: Page, take_screenshot: TakeScreenshot) -> None:
    factories.relayer(identifier="eu-payroll", name="Payroll", paused=True)
    factories.relayer(identifier="us-payroll", name="Payroll")
    page.goto("/admin/relayers/relayer/")
    page.locator("#tabs-items").get_by_role("link", name="Paused").click()
    expect(page.locator("#tabs-items .active")).to_have_text("Paused 1")
    expect(page.get_by_text("us-payroll")).to_have_count(0)
    take_screenshot(page, "relayers-paused")
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.reload()
    expect(page.locator("#tabs-items")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    take_screenshot(page, "relayers-paused-phone")
