"""The search in all lists, in a browser."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import TakeScreenshot
from tests.notifications.factories import create_notification
from tests.relayers import factories


def test_an_object_is_found_by_a_part_of_its_name(page: Page, take_screenshot: TakeScreenshot) -> None:
    factories.relayer(identifier="eu-payroll", name="Payroll of Europe")
    create_notification(identifier="payments")
    page.goto("/admin/")
    page.get_by_role("button", name="Find anything").click()
    field = page.get_by_placeholder("key:value of metadata")
    field.press_sequentially("pay")
    expect(page.locator("#command-results-list li")).to_have_count(2)
    take_screenshot(page, "search")
    for text, found in (
        ("nothing like it", "No ID, name or address matches “nothing like it”."),
        ("toke", "Access tokens"),
    ):
        field.fill("")
        field.press_sequentially(text)
        expect(page.locator("#command-results")).to_contain_text(found)
    field.fill("")
    field.press_sequentially("payroll of")
    # The first one is chosen.
    expect(page.locator("#command-results-list li.active")).to_contain_text("eu-payroll")
    field.press("Enter")
    expect(page).to_have_title("eu-payroll | Change relayer | Relayer Management")
    # Its panels are loaded after it, and fail once the test has ended and nobody is signed in.
    page.wait_for_load_state("networkidle")
