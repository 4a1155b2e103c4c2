"""A new colleague with the role Operator, from the form that adds them to what they do in an incident."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Locator, Page, expect

from notifications.models import Delivery
from relayer_service import roles
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from tests.browser.test_accessibility import SET_THEME
from tests.notifications.factories import emit_test
from tests.relayers import factories

SECRET = "s3cr3t"
PASSWORD = "a-long-password-of-vera"
SIZES = {390: 844, 1440: 900}


class Clicks:
    """Counts clicks, and takes pictures of pages if `SCREENSHOTS_OF_ROLES` names a folder."""

    def __init__(self) -> None:
        self.count = 0
        self.folder = os.environ.get("SCREENSHOTS_OF_ROLES")

    def on(self, target: Locator) -> None:
        self.count += 1
        target.click()

    def picture(self, page: Page, name: str) -> None:
        if not self.folder:
            return
        before = page.viewport_size
        for width, height in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            for theme in ("light", "dark"):
                page.evaluate(SET_THEME, theme)
                page.screenshot(path=Path(self.folder) / f"{name}-{width}-{theme}.png", full_page=True)
        page.evaluate(SET_THEME, "light")
        if before:
            page.set_viewport_size(before)


@pytest.fixture
def clicks() -> Clicks:
    return Clicks()


def delivery() -> Delivery:
    """Return a failed delivery of a relayer's webhook, whose URL has a key."""
    hook = factories.notification(url=f"https://hooks.example.com/{SECRET}")
    node = {"url": f"http://127.0.0.1:9/{SECRET}", "weight": 100}
    factories.relayer(notification=hook, rpc_urls=[node])
    row = emit_test(hook)
    Delivery.objects.filter(pk=row.pk).update(state="failed", due_at=None, response_code=500)
    return row


def test_a_superuser_adds_an_operator_with_three_clicks(page: Page, clicks: Clicks) -> None:
    page.goto("/admin/auth/user/", wait_until="networkidle")
    clicks.picture(page, "users")
    clicks.on(page.locator("a[href$='/auth/user/add/']").first)
    page.get_by_label("Username").fill("vera")
    page.locator("#id_password1").fill(PASSWORD)
    page.locator("#id_password2").fill(PASSWORD)
    clicks.on(page.get_by_role("radio", name="Operator"))
    clicks.picture(page, "add-user")
    clicks.on(page.get_by_role("button", name="Save", exact=True))
    expect(page.get_by_text("was added successfully").first).to_be_visible()
    expect(page.get_by_role("radio", name="Operator")).to_be_checked()
    expect(page.get_by_label("Superuser status")).to_be_hidden()
    clicks.picture(page, "user")
    page.locator("summary", has_text="Advanced").click()
    expect(page.get_by_label("Superuser status")).to_be_visible()
    clicks.picture(page, "user-advanced")
    vera = User.objects.get(username="vera")
    assert (clicks.count, vera.is_staff, [group.name for group in vera.groups.all()]) == (3, True, ["Operator"])


def test_an_operator_pauses_and_replays_but_sees_no_secret(
    context: BrowserContext, clicks: Clicks, transactional_db: None
) -> None:
    row = delivery()
    vera = User.objects.create_user("vera", password=PASSWORD, is_staff=True)
    roles.assign(vera, "Operator")
    page = context.new_page()
    page.goto("/admin/")
    page.get_by_label("Username").fill("vera")
    page.get_by_label("Password").fill(PASSWORD)
    clicks.on(page.get_by_role("button", name="Log in"))
    expect(page).to_have_title("Overview | Relayer Management")
    shown = page.locator("#nav-sidebar-apps")
    expect(shown.get_by_role("link", name="Users")).to_have_count(0)
    clicks.picture(page, "overview-operator")

    clicks.on(shown.get_by_role("link", name="Relayers"))
    expect(page.get_by_role("link", name="Add relayer")).to_have_count(0)
    clicks.on(page.get_by_role("link", name="Relayer 1"))
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    page.wait_for_load_state("networkidle")
    clicks.picture(page, "relayer-operator")
    assert SECRET not in page.content()
    clicks.on(page.get_by_role("link", name="Pause"))
    page.get_by_label("Reason").fill("The provider is down")
    clicks.on(page.get_by_role("button", name="Pause relayer"))
    expect(page.get_by_text("Paused: 1 relayer.")).to_have_count(1)
    assert Relayer.objects.get().paused
    assert AuditEntry.objects.filter(actor="vera", reason="The provider is down").count() == 1

    clicks.on(shown.get_by_role("link", name="Deliveries"))
    clicks.on(page.get_by_role("link", name=row.identifier))
    assert SECRET not in page.content()
    clicks.on(page.get_by_role("link", name="Replay"))
    assert SECRET not in page.content()
    clicks.picture(page, "replay-operator")
    clicks.on(page.get_by_role("button", name="Replay"))
    expect(page.get_by_text("Replayed: 1 delivery.")).to_have_count(1)
    assert Delivery.objects.get(pk=row.pk).state == "pending"
    assert clicks.count == 9
