"""Who changed what, as a browser shows it."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from notifications.models import Notification
from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.models import AuditEntry
from tests.api import WireApi
from tests.browser.conftest import TakeScreenshot
from tests.relayers import factories
from tests.relayers.factories import set_paused
from tokens.models import AccessToken

LIST = "/admin/relayer_service/auditentry/"


@pytest.fixture
def changes(transactional_db: None, token: str, port: int) -> Notification:
    """A relayer that was paused, and a webhook whose URL was changed over REST since."""
    hook = factories.notification()
    relayer = factories.relayer(notification=hook)
    with acting_as(ActorKind.USER, "olga"):
        set_paused(relayer, True, "The vault is being moved to another data centre")
    with acting_as(ActorKind.FLEET_FILE, "fleet.json"):
        set_paused(relayer, False)
    AuditEntry.objects.update(at=timezone.now() - timedelta(days=1))
    api = WireApi(token, port)
    body = {"url": "https://other.example.com/hook", "signing_key": "a-new-key"}
    assert api.patch("/api/v1/notifications/hook-1", body, headers={"X-Request-ID": "req-7"}).status == 200
    return hook


def test_who_changed_a_url_over_the_api_is_two_clicks_away(
    page: Page, changes: Notification, take_screenshot: TakeScreenshot
) -> None:
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


def test_the_log_is_searched_filtered_and_exported(
    page: Page, changes: Notification, take_screenshot: TakeScreenshot, tmp_path: Path
) -> None:
    page.goto(LIST, wait_until="networkidle")
    expect(page.locator("#result_list tbody tr")).to_have_count(4)
    take_screenshot(page, "audit-log")
    page.locator("#searchbar").fill("olga")
    page.locator("#searchbar").press("Enter")
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    expect(page.locator("#result_list")).to_contain_text("“The vault is being moved to another data centre”")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export CSV").click()
    download.value.save_as(tmp_path / "log.csv")
    with (tmp_path / "log.csv").open(newline="") as file:
        assert [row["object_id"] for row in csv.DictReader(file)] == ["relayer-1"]
    page.get_by_role("link", name="relayer relayer-1").click()
    expect(page).to_have_url(re.compile("/admin/relayers/relayer/"))


@pytest.mark.parametrize("path", [LIST, "/admin/notifications/notification/{hook}/history/"])
def test_a_phone_shows_a_page_without_sideways_scrolling(
    page: Page, changes: Notification, path: str, take_screenshot: TakeScreenshot
) -> None:
    AuditEntry.objects.update(object_id="0x" + "a1" * 80, request_id="r" * 128, changes={"x" * 90: ["b" * 90, None]})
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(path.format(hook=changes.pk), wait_until="networkidle")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
    take_screenshot(page, f"phone-audit-{'list' if path == LIST else 'history'}")
