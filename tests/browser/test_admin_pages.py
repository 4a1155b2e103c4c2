"""What only a browser shows of the admin: pages without errors, themes, and narrow screens."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from notifications.models import Notification
from relayer_service.models import AuditEntry, PeriodicRun
from tests.browser.conftest import TakeScreenshot, add_session, overflow
from tests.notifications.factories import emit_test
from tests.relayers import factories
from tokens.models import AccessToken
from tokens.scopes import WITHOUT_SCOPES
from tokens.writes import issue

PHONE: Any = {"width": 390, "height": 844}


@pytest.fixture
def tokens(staff: User) -> list[AccessToken]:
    """Tokens as a small company would have them, and a worker."""
    now = timezone.now()
    PeriodicRun.objects.create(name="heartbeat", slot=1, started_at=now, finished_at=now, seconds=0.02)
    ben, wallet = (User.objects.create_user(name) for name in ("ben", "wallet-backend"))
    rows: list[tuple[str, User, dict[str, Any]]] = [
        ("Nightly report", ben, {"expires_at": now - timedelta(days=3), "last_used_at": now - timedelta(days=4)}),
        ("Old checkout", wallet, {"enabled": False, "last_used_at": now - timedelta(days=40)}),
        ("Smoke tests", staff, {"expires_at": now + timedelta(days=30), "last_used_at": now - timedelta(hours=2)}),
        ("Fee dashboard", ben, {}),
        ("Wallet production", wallet, {"last_used_at": now - timedelta(minutes=1)}),
    ]
    return [issue(name=name, user=user, **fields)[0] for name, user, fields in rows]


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
    "Incidents": "/admin/incidents/incident/",
    "Alert routes": "/admin/incidents/alertroute/",
    "Audit log": "/admin/relayer_service/auditentry/",
    "Jobs": "/admin/relayer_service/job/",
    "Periodic work": "/admin/relayer_service/periodicrun/",
    "Readiness": "/ready",
    "API docs": "/api/docs",
    "API reference": "/api/redoc",
}
OTHERS = [
    *("tokens/accesstoken/add/", "tokens/accesstoken/{token}/change/", "tokens/accesstoken/{token}/history/"),
    *("tokens/accesstoken/{token}/delete/", "auth/user/add/", "auth/user/{user}/change/"),
    *("auth/user/{user}/password/", "auth/group/add/", "relayer_service/periodicrun/heartbeat/change/"),
    *("relayer_service/auditentry/{entry}/change/", "password_change/"),
]


def test_every_page_opens_without_errors_and_fits_the_screen(
    page: Page, staff: User, tokens: list[AccessToken]
) -> None:
    """The fixture of the context finds errors, warnings and requests to other hosts."""
    page.goto("/admin/")
    sidebar = page.locator("#nav-sidebar-apps")
    assert sidebar.locator("h2").all_inner_texts() == ["Fleet", "Access", "Operations"]
    links = sidebar.locator("a").evaluate_all("links => links.map(a => [a.lastElementChild.innerText, a.pathname])")
    assert links == [list(item) for item in SIDEBAR.items()]
    keys = {"token": tokens[0].pk, "user": staff.pk, "entry": AuditEntry.objects.for_row(tokens[0]).get().pk}
    for path in (*SIDEBAR.values(), *(f"/admin/{other}".format(**keys) for other in OTHERS)):
        # Or a slow browser outlives the worker's heartbeat.
        PeriodicRun.objects.update(finished_at=timezone.now())
        response = page.goto(path, wait_until="networkidle")
        assert response
        assert (path, response.status, overflow(page)) == (path, 200, 0)


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


def test_a_page_fits_a_phone_before_its_icons_are_loaded(quiet_page: Page, site: str, staff: User) -> None:
    """Until then an icon is a word, which is longer."""
    add_session(quiet_page.context, site, staff)
    quiet_page.route("**/*.woff2", lambda route: route.abort())
    quiet_page.set_viewport_size(PHONE)
    for path in ("/admin/tokens/accesstoken/add/", "/admin/relayers/relayer/add/"):
        quiet_page.goto(path, wait_until="networkidle")
        assert (path, overflow(quiet_page)) == (path, 0)


def test_a_phone_has_menus_behind_buttons_and_rows_of_two_lines(page: Page, tokens: list[AccessToken]) -> None:
    page.set_viewport_size(PHONE)
    page.goto("/admin/", wait_until="networkidle")
    link = page.locator("#nav-sidebar-apps").get_by_role("link", name="Access tokens")
    expect(link).not_to_be_in_viewport()
    page.get_by_text("dock_to_right").locator("visible=true").click()
    expect(link).to_be_in_viewport()

    page.goto("/admin/tokens/accesstoken/", wait_until="networkidle")
    row = page.locator("#result_list .data-row").first
    expect(row).to_contain_text("Wallet production")
    box = row.bounding_box()
    assert box
    assert box["height"] < 70
    shown = row.locator("th, td").locator("visible=true").evaluate_all("cells => cells.map(cell => cell.className)")
    names = [name for classes in shown for name in classes.split() if name.startswith("field-")]
    assert names == ["field-name", "field-shown_key", "field-state", "field-last_use"]

    page.goto(f"/admin/tokens/accesstoken/{tokens[2].pk}/change/", wait_until="networkidle")
    page.locator("header").get_by_text("more_horiz").click()
    page.get_by_role("link", name="Rotate").click()
    page.wait_for_url("**/rotate/")


def test_long_values_fit_a_phone(page: Page, staff: User) -> None:
    # As long as those of chat services are, with no place to break it at.
    url = "https://hooks.example.com/api/webhooks/" + "A1b2" * 25
    hook = Notification.objects.create(identifier="billing", url=url)
    delivery = emit_test(hook)
    AuditEntry.objects.create(
        at=timezone.now(),
        action="changed",
        object_type="notification",
        actor_kind="user",
        actor="olga",
        object_pk=str(hook.pk),
        object_id="0x" + "a1" * 80,
        request_id="r" * 128,
        changes={"x" * 90: ["b" * 90, None]},
    )
    signer = factories.signer("a-rather-long-id-of-a-signer-in-production")
    page.set_viewport_size(PHONE)
    webhook = f"notifications/notification/{hook.pk}"
    for path in (
        *("relayer_service/auditentry/", f"{webhook}/history/", f"{webhook}/change/"),
        *("notifications/delivery/", f"notifications/delivery/{delivery.pk}/change/"),
        f"signers/signer/{signer.pk}/change/",
    ):
        page.goto(f"/admin/{path}", wait_until="networkidle")
        assert (path, overflow(page)) == (path, 0)
    last = page.locator("h1 .title-last")
    assert last.inner_text() == signer.identifier
    assert last.evaluate("element => element.scrollWidth <= element.clientWidth")


def texts(locator: Locator) -> list[str]:
    return [text.replace("\xa0", " ") for text in locator.all_inner_texts()]


def test_the_state_and_use_of_tokens_is_shown(
    page: Page, tokens: list[AccessToken], take_screenshot: TakeScreenshot
) -> None:
    page.goto("/admin/", wait_until="networkidle")
    card = page.locator(".dashboard > *").filter(has=page.get_by_text("Tokens used last"))
    assert [" | ".join(line.split("\t")) for line in texts(card.locator("tr, p"))] == [
        "Wallet production | wallet-backend | a minute ago",
        "Smoke tests | olga | 2 hours ago",
        "Nightly report | ben | 4 days ago",
        "Old checkout | wallet-backend | 1 month ago",
    ]
    take_screenshot(page, "admin")
    page.goto("/admin/tokens/accesstoken/")
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
