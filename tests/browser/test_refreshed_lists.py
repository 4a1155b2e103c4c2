"""Lists refresh themselves, but not the rows that somebody works with."""

from playwright.sync_api import Page, expect

from tests.relayers import factories as relayers
from tests.transactions import factories
from transactions.models import Transaction

HALF_A_MINUTE = 30_000
HIDE = "isHidden => Object.defineProperty(document, 'hidden', {value: isHidden, configurable: true})"


def test_a_list_refreshes_itself_and_keeps_what_is_selected_and_typed(page: Page) -> None:
    lane = factories.lane(relayers.relayer())
    first = factories.transaction(lane)
    page.clock.install()
    page.goto("/admin/transactions/transaction/", wait_until="networkidle")
    rows, boxes = page.locator("#result_list tbody"), page.locator("#result_list .action-select")
    search = page.locator("#searchbar")
    page.get_by_text("Columns", exact=True).click()
    search.fill("half of a")
    factories.transaction(lane)
    page.clock.fast_forward(HALF_A_MINUTE)
    expect(rows).to_have_count(2)
    expect(page.get_by_text("2 transactions")).to_be_visible()
    expect(search).to_have_value("half of a")
    expect(search).to_be_focused()
    expect(page.get_by_role("checkbox", name="Finished")).to_be_visible()

    # The new row is counted like one of the page.
    boxes.first.check()
    expect(page.get_by_text("1 of 2 selected")).to_be_visible()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    factories.transaction(lane)
    page.clock.fast_forward(2 * HALF_A_MINUTE)
    boxes.first.uncheck()
    boxes.first.blur()
    page.evaluate(HIDE, True)
    page.clock.fast_forward(2 * HALF_A_MINUTE)
    page.evaluate(HIDE, False)
    assert requests == []
    Transaction.objects.filter(pk=first.pk).delete()
    page.clock.fast_forward(HALF_A_MINUTE)
    expect(page.locator(f"#result_list [value='{first.pk}']")).to_have_count(0)
    expect(rows).to_have_count(2)
    assert len(requests) == 1


def test_a_narrow_window_shows_the_columns_that_a_user_has_chosen(page: Page) -> None:
    relayers.relayer()
    page.goto("/admin/relayers/relayer/", wait_until="networkidle")
    signer = page.locator("#result_list .field-shown_signer")
    expect(signer).to_be_hidden()
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("button", name="Show these").click()
    expect(signer).to_be_visible()


def test_the_name_of_a_filter_is_typed_at_once(page: Page) -> None:
    relayers.relayer()
    page.goto("/admin/relayers/relayer/?network=sepolia", wait_until="networkidle")
    page.get_by_text("Save filter", exact=True).click()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()


def test_a_list_says_that_it_is_out_of_date(page: Page) -> None:
    page.clock.install()
    page.goto("/admin/signers/signer/", wait_until="networkidle")
    page.context.clear_cookies()
    page.clock.fast_forward(HALF_A_MINUTE)
    expect(page.get_by_role("status").filter(has_text="This list is out of date")).to_be_visible()
