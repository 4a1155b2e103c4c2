"""What staff do with access tokens, from issue to deletion."""

import io
from collections.abc import Callable
from pathlib import Path

from django.contrib.sessions.models import Session
from django.core.management import call_command
from playwright.sync_api import Page, expect

from tokens import credentials
from tokens.models import AccessToken

LIST = "/admin/tokens/accesstoken/"


def issue_in_form(page: Page) -> str:
    page.goto(f"{LIST}add/")
    page.get_by_label("Name").fill("Wallet production")
    page.get_by_label("no scopes").check()
    page.get_by_role("button", name="Save").click()
    return page.locator("#issued-token").inner_text()


def test_an_issued_token_is_copied_with_a_button(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    text = issue_in_form(page)
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == text

    # Where a browser refuses the clipboard, the button selects the token.
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    text = issue_in_form(page)
    page.get_by_role("button", name="Copy").click()
    page.wait_for_function("getSelection().toString() !== ''")
    assert page.evaluate("getSelection().toString()") == text


def test_an_issued_token_is_nowhere_after_its_page(page: Page, site_log: Path) -> None:
    text = issue_in_form(page)
    credential = credentials.parse(text)
    assert credential
    token = AccessToken.objects.get()

    places = {}
    for path in (LIST, f"{LIST}{token.pk}/change/", f"{LIST}{token.pk}/history/", "/admin/"):
        page.goto(path)
        assert token.key in page.content()
        places[path] = page.content()
    dump = io.StringIO()
    call_command("dumpdata", stdout=dump)
    places |= {
        "the database": dump.getvalue(),
        "the sessions": str([session.get_decoded() for session in Session.objects.all()]),
        "the browser's cookies": str(page.context.cookies()),
        "the browser's storage": str(page.evaluate("[{...localStorage}, {...sessionStorage}]")),
        "the log": site_log.read_text(),
    }

    assert [place for place, content in places.items() if credential.secret in content] == []
    assert [place for place, content in places.items() if token.digest in content] == ["the database"]


def test_a_token_is_issued_disabled_enabled_and_deleted(page: Page, call: Callable[[str], int]) -> None:
    text = issue_in_form(page)
    assert call(text) == 200
    page.goto(LIST)
    page.locator("input.action-select").check()
    page.locator("select[name=action]").select_option(label="Revoke selected tokens")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("button", name="Revoke token").click()
    expect(page.get_by_text("Revoked: 1. Other processes reject it within seconds.")).to_be_visible()
    assert call(text) == 401
    page.goto(f"{LIST}{AccessToken.objects.get().pk}/change/")
    page.get_by_label("Enabled").click()
    page.get_by_role("button", name="Save and continue editing", exact=True).click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert call(text) == 200
    page.get_by_role("link", name="Delete access token").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_text("was deleted successfully")).to_be_visible()
    assert call(text) == 401
    assert not AccessToken.objects.exists()
