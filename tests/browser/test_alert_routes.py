"""Alert routes in the browser: the form has the fields of the channel, and a test shows its outcome."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from incidents.models import AlertMessage
from tests.incidents.factories import route

ROUTES = "/admin/incidents/alertroute/"
FIELDS = ["url", "addresses", "new_secret"]
SHOWN = {
    "slack": ["url"],
    "email": ["addresses"],
    "webhook": ["url", "new_secret"],
    "pagerduty": ["url", "new_secret"],
}
URLS = {"email": "mailto:ops@example.com"}


def expect_fields(page: Page, fields: list[str]) -> None:
    for name in FIELDS:
        expect(page.locator(f"[name={name}]")).to_be_visible(visible=name in fields)


@pytest.mark.usefixtures("transactional_db")
def test_a_route_has_the_fields_of_its_channel_when_it_is_added_and_changed(page: Page) -> None:
    page.goto(f"{ROUTES}add/")
    for channel, fields in SHOWN.items():
        page.locator("[name=channel]").select_option(channel)
        expect_fields(page, fields)
    for channel, fields in SHOWN.items():
        url = URLS.get(channel, "https://hooks.example.com/")
        made = route(channel, url, channel=channel, secret="key", enabled=False)
        page.goto(f"{ROUTES}{made.pk}/change/")
        expect_fields(page, fields)


@pytest.mark.usefixtures("transactional_db")
def test_a_test_alert_shows_its_outcome_by_itself(page: Page) -> None:
    made = route(channel="slack")
    page.goto(f"{ROUTES}{made.pk}/change/")
    expect(page.get_by_text("State: not tested")).to_be_visible()
    page.get_by_role("button", name="Send a test alert").click()
    expect(page.get_by_text("Its outcome appears below.")).to_be_visible()
    AlertMessage.objects.update(state="failed", due_at=None, attempts=1, error="Connection refused.")
    expect(page.get_by_text("State: failing")).to_be_visible()
