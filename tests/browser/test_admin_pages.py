from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import BrowserContext, Locator, Page, expect

from relayer_service.models import AuditEntry, PeriodicRun
from tests.browser.conftest import TakeScreenshot, add_session
from tests.relayers import factories
from tokens.models import AccessToken
from tokens.scopes import WITHOUT_SCOPES
from tokens.writes import issue


@pytest.fixture
def working_worker(transactional_db: None) -> None:
    now = timezone.now()
    for name, seconds in (("heartbeat", 4), ("clear_sessions", 25 * 60)):
        finished = now - timedelta(seconds=seconds)
        PeriodicRun.objects.create(name=name, slot=1, started_at=finished, finished_at=finished, seconds=0.02)


@pytest.fixture
def tokens(staff: User) -> list[AccessToken]:
    """Tokens as a small company would have them."""
    now = timezone.now()
    ben = User.objects.create_user("ben")
    wallet = User.objects.create_user("wallet-backend")
    rows: list[tuple[str, User, dict[str, Any]]] = [
        ("Nightly report", ben, {"expires_at": now - timedelta(days=3), "last_used_at": now - timedelta(days=4)}),
        ("Old checkout", wallet, {"enabled": False, "last_used_at": now - timedelta(days=40)}),
        ("Smoke tests", staff, {"expires_at": now + timedelta(days=30), "last_used_at": now - timedelta(hours=2)}),
        ("Fee dashboard", ben, {}),
        (
            "Wallet production",
            wallet,
            {"allowed_networks": ["10.0.0.0/8"], "last_used_at": now - timedelta(minutes=1)},
        ),
    ]
    return [issue(name=name, user=user, **fields)[0] for name, user, fields in rows]


def test_staff_sign_in_with_their_password(context: BrowserContext, staff: User) -> None:
    page = context.new_page()
    page.goto("/admin/")
    expect(page).to_have_title("Log in | Relayer Management")
    page.get_by_label("Username").fill("olga")
    page.get_by_label("Password").fill("a-password-for-tests")
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_title("Overview | Relayer Management")


def test_a_wrong_password_is_refused_in_words(context: BrowserContext, staff: User) -> None:
    page = context.new_page()
    page.goto("/admin/")
    page.get_by_label("Username").fill("olga")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Please enter the correct username and password for a staff account.")).to_be_visible()


SIDEBAR = {
    "Overview": "/admin/",
    "Relayers": "/admin/relayers/relayer/",
    "Networks and nodes": "/admin/relayers/relayer/nodes/",
    "Transactions": "/admin/transactions/transaction/",
    "Lanes": "/admin/transactions/lane/",
    "Fee tokens": "/admin/rpc/feetoken/",
    "Signers": "/admin/signers/signer/",
    "Webhooks": "/admin/notifications/notification/",
    "Deliveries": "/admin/notifications/delivery/",
    "Access tokens": "/admin/tokens/accesstoken/",
    "Users": "/admin/auth/user/",
    "Groups": "/admin/auth/group/",
    "Audit log": "/admin/relayer_service/auditentry/",
    "Jobs": "/admin/relayer_service/job/",
    "Periodic work": "/admin/relayer_service/periodicrun/",
    "Readiness": "/ready",
    "API docs": "/api/docs",
    "API reference": "/api/redoc",
}


def test_the_sidebar_groups_the_pages_by_subject(page: Page) -> None:
    page.goto("/admin/")
    sidebar = page.locator("#nav-sidebar-apps")
    assert sidebar.locator("h2").all_inner_texts() == ["Fleet", "Access", "Operations"]
    links = sidebar.locator("a").evaluate_all("links => links.map(a => [a.lastElementChild.innerText, a.pathname])")
    assert links == [list(item) for item in SIDEBAR.items()]


@pytest.mark.parametrize("title", SIDEBAR)
def test_every_link_of_the_sidebar_opens(
    page: Page, tokens: list[AccessToken], working_worker: None, title: str
) -> None:
    page.goto("/admin/")
    link = page.locator("#nav-sidebar-apps").get_by_role("link", name=title)
    with page.expect_navigation(wait_until="networkidle") as navigation:
        link.click()
    response = navigation.value
    assert response
    assert (response.status, response.url) == (200, page.url)
    assert page.url.endswith(SIDEBAR[title])


@pytest.mark.parametrize(
    "path",
    [
        "/admin/tokens/accesstoken/add/",
        "/admin/tokens/accesstoken/{token}/change/",
        "/admin/tokens/accesstoken/{token}/history/",
        "/admin/tokens/accesstoken/{token}/delete/",
        "/admin/auth/user/add/",
        "/admin/auth/user/{user}/change/",
        "/admin/auth/user/{user}/password/",
        "/admin/auth/group/add/",
        "/admin/relayer_service/periodicrun/heartbeat/change/",
        "/admin/relayer_service/auditentry/{entry}/change/",
        "/admin/password_change/",
    ],
)
def test_every_other_page_opens_and_fits_the_screen(
    page: Page, staff: User, tokens: list[AccessToken], working_worker: None, path: str
) -> None:
    entry = AuditEntry.objects.for_row(tokens[0]).get()
    response = page.goto(path.format(token=tokens[0].pk, user=staff.pk, entry=entry.pk), wait_until="networkidle")
    assert response
    assert response.status == 200
    assert overflow(page) == 0


def overflow(page: Page) -> int:
    width: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return width


BRIGHTNESS = """() => {
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.fillStyle = getComputedStyle(document.body).backgroundColor;
  canvas.fillRect(0, 0, 1, 1);
  return canvas.getImageData(0, 0, 1, 1).data[0];
}"""


def test_pages_follow_the_colour_scheme_of_the_system(page: Page) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto("/admin/", wait_until="networkidle")
        # Drawn on a canvas, as browsers write the theme's colours in several notations.
        seen[scheme] = page.evaluate(BRIGHTNESS) > 128
    assert seen == {"light": True, "dark": False}


@pytest.mark.parametrize(
    "path", ["/admin/", "/admin/tokens/accesstoken/", "/admin/tokens/accesstoken/add/", "/admin/auth/user/"]
)
def test_a_phone_shows_a_page_without_sideways_scrolling(page: Page, tokens: list[AccessToken], path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(path, wait_until="networkidle")
    assert overflow(page) == 0


@pytest.mark.parametrize("path", ["/admin/tokens/accesstoken/add/", "/admin/relayers/relayer/add/"])
def test_a_page_fits_a_phone_before_its_icons_are_loaded(quiet_page: Page, site: str, staff: User, path: str) -> None:
    """Until then an icon is a word, which is longer."""
    add_session(quiet_page.context, site, staff)
    quiet_page.route("**/*.woff2", lambda route: route.abort())
    quiet_page.set_viewport_size({"width": 390, "height": 844})
    quiet_page.goto(path, wait_until="networkidle")
    assert overflow(quiet_page) == 0


def test_a_phone_opens_the_sidebar_with_a_button(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/admin/", wait_until="networkidle")
    link = page.locator("#nav-sidebar-apps").get_by_role("link", name="Access tokens")
    expect(link).not_to_be_in_viewport()
    page.get_by_text("dock_to_right").locator("visible=true").click()
    expect(link).to_be_in_viewport()


def test_the_search_of_the_sidebar_finds_pages(page: Page) -> None:
    page.goto("/admin/", wait_until="networkidle")
    page.get_by_role("button", name="Find anything").click()
    page.locator("#search-input-command").press_sequentially("toke")
    expect(page.locator("#command-results").get_by_text("Access tokens").first).to_be_visible()


def texts(locator: Locator) -> list[str]:
    return [text.replace("\xa0", " ") for text in locator.all_inner_texts()]


def cards(page: Page) -> dict[str, list[str]]:
    """What the overview says, by the titles of its cards."""
    found: dict[str, list[str]] = {}
    for card in page.locator(".dashboard > *").all():
        lines = texts(card.locator("tr, p"))
        found[card.locator("h2").inner_text()] = [" | ".join(line.split("\t")) for line in lines]
    for line in page.locator(".quiet-cards [data-part]").all():
        found[line.locator("h3").inner_text()] = texts(line.locator("p"))
    return found


NOTHING = {
    "Relayers": ["There are no relayers yet."],
    "Transactions": ["None is open, and none was confirmed in the last day."],
    "Webhooks": ["No delivery is pending, and no webhook fails."],
    "Fee tokens without a price": ["None: every price is current."],
    "Deliveries of the last 24 hours": ["Not counted yet: the worker counts them every minute."],
    "JSON-RPC calls in the last 24 hours": ["There were no calls."],
    "Your last changes": ["You have not changed anything yet."],
}


def test_the_overview_shows_the_state_of_the_fleet(
    page: Page, tokens: list[AccessToken], working_worker: None, take_screenshot: TakeScreenshot
) -> None:
    page.goto("/admin/", wait_until="networkidle")
    assert cards(page) == NOTHING | {
        "Readiness": ["All 6 parts of the service work."],
        "Periodic work": ["All 2 periodic jobs are on time."],
        "Tokens used last": [
            "Wallet production | wallet-backend | a minute ago",
            "Smoke tests | olga | 2 hours ago",
            "Nightly report | ben | 4 days ago",
            "Old checkout | wallet-backend | 1 month ago",
        ],
    }
    expect(page.locator(".attention")).to_contain_text("No problems found.")
    take_screenshot(page, "admin")


def test_the_overview_of_a_new_service_shows_what_is_missing(page: Page) -> None:
    page.goto("/admin/")
    assert cards(page) == NOTHING | {
        "Readiness": ["Worker | FAILED"],
        "Periodic work": ["No worker has run yet."],
        "Tokens used last": ["No token has been used yet."],
    }
    expect(page.locator(".attention li")).to_contain_text("No worker is running, it cannot write")


def test_the_overview_shows_staff_only_what_they_may_see(
    sign_in: Callable[[User], Page], tokens: list[AccessToken], working_worker: None
) -> None:
    page = sign_in(User.objects.create_user("newcomer", is_staff=True))
    page.goto("/admin/")
    assert list(cards(page)) == ["Readiness", "Your last changes"]
    links = page.locator("#nav-sidebar-apps a > span:last-child").all_inner_texts()
    assert links == ["Overview", "Readiness", "API docs", "API reference"]


def test_an_empty_list_explains_why_it_is_empty(page: Page) -> None:
    page.goto("/admin/relayer_service/periodicrun/")
    expect(page.get_by_text("Periodic work will be listed here.")).to_be_visible()
    page.goto("/admin/tokens/accesstoken/?q=nothing-of-that-name")
    expect(page.get_by_text("No access token matches the search and the filters.")).to_be_visible()


def test_periodic_work_is_read_only(page: Page, working_worker: None) -> None:
    page.goto("/admin/relayer_service/periodicrun/")
    assert texts(page.locator("#result_list tbody tr").first.locator("th, td")) == [
        "clear_sessions",
        "OK",
        "25 minutes ago",
        "25 minutes ago",
        "0.02 s",
    ]
    page.goto("/admin/relayer_service/periodicrun/heartbeat/change/")
    assert page.get_by_role("button", name="Save").count() == 0
    assert page.get_by_text("Delete").count() == 0


def test_the_list_of_tokens_shows_their_state_and_use(
    page: Page, tokens: list[AccessToken], take_screenshot: TakeScreenshot
) -> None:
    page.goto("/admin/tokens/accesstoken/", wait_until="networkidle")
    rows = [texts(row.locator("th, td"))[1:8] for row in page.locator("#result_list tbody tr").all()]
    keys = [f"rms_{token.key}_…" for token in tokens]
    past, soon = (f"{tokens[number].expires_at:%Y-%m-%d %H:%M} UTC" for number in (0, 2))
    assert rows == [
        ["Wallet production", keys[4], "wallet-backend", "ACTIVE", "never", "a minute ago", WITHOUT_SCOPES],
        ["Fee dashboard", keys[3], "ben", "ACTIVE", "never", "never", WITHOUT_SCOPES],
        ["Smoke tests", keys[2], "olga", "ACTIVE", soon, "2 hours ago", WITHOUT_SCOPES],
        ["Old checkout", keys[1], "wallet-backend", "DISABLED", "never", "1 month ago", WITHOUT_SCOPES],
        ["Nightly report", keys[0], "ben", "EXPIRED", past, "4 days ago", WITHOUT_SCOPES],
    ]
    take_screenshot(page, "admin-tokens")


def test_pages_allow_no_inline_script_and_no_other_host(page: Page) -> None:
    response = page.goto("/admin/")
    assert response
    policy = response.headers["content-security-policy"]
    directives = {name: values for name, *values in (part.split() for part in policy.split(";"))}
    assert directives == {
        "default-src": ["'self'"],
        "script-src": ["'self'", "'unsafe-eval'"],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:"],
        "worker-src": ["'self'", "blob:"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }


def test_a_phone_shows_two_lines_a_row(page: Page, tokens: list[AccessToken]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/admin/tokens/accesstoken/", wait_until="networkidle")
    row = page.locator("#result_list .data-row").first
    expect(row).to_contain_text("Wallet production")
    box = row.bounding_box()
    assert box
    assert box["height"] < 70
    shown = row.locator("th, td").locator("visible=true").evaluate_all("cells => cells.map(cell => cell.className)")
    names = [name for classes in shown for name in classes.split() if name.startswith("field-")]
    assert names == ["field-name", "field-shown_key", "field-state", "field-last_use"]


def test_the_id_of_an_object_is_whole_and_as_it_is_in_the_title_on_a_phone(page: Page, staff: User) -> None:
    signer = factories.signer("a-rather-long-id-of-a-signer-in-production")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/admin/signers/signer/{signer.pk}/change/", wait_until="networkidle")
    last = page.locator("h1 .title-last")
    assert last.inner_text() == signer.identifier
    assert last.evaluate("element => element.scrollWidth <= element.clientWidth")
    assert overflow(page) == 0


def test_the_actions_of_an_object_open_over_its_page_on_a_phone(page: Page, tokens: list[AccessToken]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/admin/tokens/accesstoken/{tokens[2].pk}/change/", wait_until="networkidle")
    page.locator("header").get_by_text("more_horiz").click()
    page.get_by_role("link", name="Rotate").click()
    page.wait_for_url("**/rotate/")


def test_a_list_counts_its_results_where_something_is_filtered(page: Page, tokens: list[AccessToken]) -> None:
    page.goto("/admin/signers/signer/")
    assert page.locator("h1").inner_text().split("\n")[-1] == "Signers"
    page.goto("/admin/tokens/accesstoken/?q=wallet")
    expect(page.locator("h1")).to_contain_text("2 results (Show all)")
