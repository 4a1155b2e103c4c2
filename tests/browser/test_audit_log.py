"""Who changed what, as a browser shows it."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.api import WireApi
from tests.browser.conftest import TakeScreenshot
from tests.relayers import factories
from tokens.models import AccessToken


def test_who_changed_a_url_over_the_api_is_two_clicks_away(
    page: Page, token: str, port: int, take_screenshot: TakeScreenshot
) -> None:
    factories.notification()
    body = {"url": "https://other.example.com/hook", "signing_key": "a-new-key"}
    changed = WireApi(token, port).patch("/api/v1/notifications/hook-1", body, headers={"X-Request-ID": "req-7"})
    assert changed.status == 200
    page.goto("/admin/notifications/notification/")
    page.get_by_role("link", name="hook-1").click()
    page.get_by_role("link", name="history History").click()
    key = AccessToken.objects.get().key
    row = page.locator("tbody tr").first
    expect(row).to_contain_text(f"Token tests (rms_{key}_…)")
    expect(row).to_contain_text("request req-7")
    expect(row).to_contain_text("url: https://hooks.example.com/*** → https://other.example.com/***")
    expect(row).to_contain_text("signing_key: set")
    take_screenshot(page, "audit-history")
