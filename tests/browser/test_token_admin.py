"""What staff do with access tokens, from issue to deletion."""

import io
from collections.abc import Callable
from pathlib import Path

from django.contrib.auth.models import Permission, User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from playwright.sync_api import Page, expect

from tokens import credentials
from tokens.models import AccessToken
from tokens.writes import issue

LIST = "/admin/tokens/accesstoken/"
ADD = "/admin/tokens/accesstoken/add/"


def issue_in_form(page: Page, name: str) -> str:
    page.goto(ADD)
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Save").click()
    return page.locator("#issued-token").inner_text()


def choose_action(page: Page, title: str) -> None:
    page.locator("input.action-select").check()
    page.locator("select[name=action]").select_option(label=title)
    page.get_by_role("button", name="Run").click()


def test_an_issued_token_is_shown_and_opens_the_api(page: Page, staff: User, call: Callable[[str], int]) -> None:
    text = issue_in_form(page, "Wallet production")
    assert call(text) == 200
    token = AccessToken.objects.get()
    assert (token.name, token.user, token.enabled, token.allowed_networks) == ("Wallet production", staff, True, [])


def test_an_issued_token_is_copied_with_a_button(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    text = issue_in_form(page, "Wallet production")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == text


def test_where_a_browser_refuses_the_clipboard_the_button_selects_the_token(page: Page) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    text = issue_in_form(page, "Wallet production")
    page.get_by_role("button", name="Copy").click()
    page.wait_for_function("getSelection().toString() !== ''")
    assert page.evaluate("getSelection().toString()") == text


def test_an_issued_token_is_nowhere_after_its_page(page: Page, site_log: Path) -> None:
    text = issue_in_form(page, "Wallet production")
    credential = credentials.parse(text)
    assert credential
    token = AccessToken.objects.get()

    places = {}
    for name, path in {
        "the list": LIST,
        "its page": f"{LIST}{token.pk}/change/",
        "its history": f"{LIST}{token.pk}/history/",
        "the overview": "/admin/",
    }.items():
        page.goto(path)
        assert token.key in page.content()
        places[name] = page.content()
    dump = io.StringIO()
    call_command("dumpdata", stdout=dump)
    assert token.digest in dump.getvalue()
    places |= {
        "the database": dump.getvalue(),
        "the sessions": str([session.get_decoded() for session in Session.objects.all()]),
        "the browser's cookies": str(page.context.cookies()),
        "the browser's storage": str(page.evaluate("[{...localStorage}, {...sessionStorage}]")),
        "the log": site_log.read_text(),
    }

    assert [place for place, content in places.items() if credential.secret in content] == []
    shown = [place for place, content in places.items() if token.digest in content]
    assert shown == ["the database"]


def test_the_page_of_a_new_token_is_not_stored_by_the_browser(page: Page) -> None:
    page.goto(ADD)
    page.get_by_label("Name").fill("Wallet production")
    with page.expect_response(lambda response: response.request.method == "POST") as answer:
        page.get_by_role("button", name="Save").click()
    assert "no-store" in answer.value.headers["cache-control"]


def test_a_disabled_token_is_refused_at_once(page: Page, call: Callable[[str], int]) -> None:
    text = issue_in_form(page, "Wallet production")
    assert call(text) == 200
    page.goto(LIST)
    choose_action(page, "Disable selected tokens")
    expect(page.get_by_text("Disabled: 1. Other processes reject them within seconds.")).to_be_visible()
    expect(page.locator("#result_list").get_by_text("disabled")).to_be_visible()
    assert call(text) == 401


def test_a_token_is_disabled_and_enabled_on_its_page(page: Page, call: Callable[[str], int]) -> None:
    text = issue_in_form(page, "Wallet production")
    answers = []
    for _ in range(2):
        page.goto(f"{LIST}{AccessToken.objects.get().pk}/change/")
        page.get_by_label("Enabled").click()
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("was changed successfully")).to_be_visible()
        answers.append(call(text))
    assert answers == [401, 200]


def test_a_deleted_token_is_refused(page: Page, call: Callable[[str], int]) -> None:
    text = issue_in_form(page, "Wallet production")
    assert call(text) == 200
    page.goto(f"{LIST}{AccessToken.objects.get().pk}/change/")
    page.get_by_role("link", name="Delete access token").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_text("was deleted successfully")).to_be_visible()
    assert call(text) == 401
    assert not AccessToken.objects.exists()


def test_tokens_deleted_from_the_list_are_refused(page: Page, call: Callable[[str], int]) -> None:
    text = issue_in_form(page, "Wallet production")
    assert call(text) == 200
    page.goto(LIST)
    choose_action(page, "Delete selected access tokens")
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_text("Successfully deleted 1 access token.")).to_be_visible()
    assert call(text) == 401


def test_a_network_that_is_none_is_refused_in_words(page: Page) -> None:
    page.goto(ADD)
    page.get_by_label("Name").fill("Wallet production")
    page.get_by_label("Allowed networks").fill("10.0.0.0/8\n10.0.0.1/33")
    page.get_by_role("button", name="Save").click()
    fault = page.locator("form").get_by_text("'10.0.0.1/33' is not an address or a CIDR network.")
    expect(fault).to_be_visible()
    assert page.get_by_label("Allowed networks").input_value() == "10.0.0.0/8\n10.0.0.1/33"
    assert not AccessToken.objects.exists()


def test_networks_are_written_one_a_line(page: Page, call: Callable[[str], int]) -> None:
    page.goto(ADD)
    page.get_by_label("Name").fill("Wallet production")
    page.get_by_label("Allowed networks").fill("10.0.0.0/8\n192.0.2.7")
    page.get_by_role("button", name="Save").click()
    text = page.locator("#issued-token").inner_text()
    token = AccessToken.objects.get()
    assert token.allowed_networks == ["10.0.0.0/8", "192.0.2.7"]
    assert call(text) == 401
    page.goto(f"{LIST}{token.pk}/change/")
    assert page.get_by_label("Allowed networks").input_value() == "10.0.0.0/8\n192.0.2.7"


def test_staff_who_may_only_view_can_look_and_no_more(sign_in: Callable[[User], Page], staff: User) -> None:
    token, _ = issue(name="Wallet production", user=staff)
    auditor = User.objects.create_user("auditor", is_staff=True)
    auditor.user_permissions.add(Permission.objects.get(codename="view_accesstoken"))
    page = sign_in(auditor)

    page.goto(LIST)
    expect(page.get_by_role("link", name="Wallet production")).to_be_visible()
    assert page.locator("select[name=action]").count() == 0
    assert page.locator(f"a[href*='{ADD}']").count() == 0
    page.goto(f"{LIST}{token.pk}/change/")
    expect(page.get_by_text(f"rms_{token.key}_…", exact=True)).to_be_visible()
    assert page.locator("form button[type=submit], form input[type=submit]").locator("visible=true").count() == 0
    assert token.digest not in page.content()


def test_a_token_is_rotated_and_both_open_the_api_for_the_overlap(page: Page, call: Callable[[str], int]) -> None:
    text = issue_in_form(page, "Wallet production")
    old = AccessToken.objects.get()
    page.goto(f"{LIST}{old.pk}/change/")
    page.get_by_role("link", name="Rotate").click()
    page.get_by_label("Overlap in hours").fill("2")
    page.get_by_role("button", name="Rotate token").click()
    successor = page.locator("#issued-token").inner_text()
    assert (successor != text, call(text), call(successor)) == (True, 200, 200)
    page.goto(f"{LIST}{old.pk}/change/")
    expect(page.get_by_text(f"Replaced by {AccessToken.objects.latest('pk')}")).to_be_visible()
