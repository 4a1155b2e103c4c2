"""The form of alert routes in the browser: each channel has its fields."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

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
