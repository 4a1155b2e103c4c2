"""A superuser who must have a second factor: setting it up, and signing in with a code and with a recovery code."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Page, expect

from relayer_service.models import AuditEntry
from relayer_service.sign_in.models import SecondFactor, enable
from tests import processes
from tests.browser.conftest import PATIENCE
from tests.browser.test_accessibility import AXE, findings_here
from tests.relayer_service.sign_in.signing_in import PASSWORD, code_at


@pytest.fixture
def visitor(
    browser: Browser, static_files: None, tmp_path: Path, transactional_db: None, staff: User
) -> Iterator[Page]:
    """A page of nobody, on a server where superusers need a second factor."""
    with (
        processes.web(tmp_path / "log", REQUIRE_SECOND_FACTOR="superusers") as port,
        browser.new_context(base_url=f"http://127.0.0.1:{port}") as context,
    ):
        context.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        yield context.new_page()


def check(page: Page, name: str) -> None:
    """Expect that axe finds nothing on this page in both themes and widths."""
    assert not AXE.exists() or findings_here(page, name) == {}


def give_password(page: Page) -> None:
    page.goto("/admin/signers/signer/")
    page.get_by_label("Username").fill("olga")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


def give_code(page: Page, code: str) -> None:
    page.get_by_role("textbox", name="Code").fill(code)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(f"{page.url.partition('/admin/')[0]}/admin/signers/signer/")


def sign_out(page: Page) -> None:
    page.goto("/admin/")
    page.evaluate("document.querySelector('#logout-form').requestSubmit()")
    page.get_by_text("Thanks for spending").or_(page.get_by_text("Logged out")).first.wait_for()


def test_a_superuser_sets_it_up_and_signs_in_with_codes(visitor: Page, staff: User) -> None:
    page = visitor
    give_password(page)
    expect(page.get_by_role("heading", name="Set up two-factor authentication")).to_be_visible()
    check(page, "set-up")
    key = base64.b32decode(page.locator("#second-factor-key").inner_text()).hex()
    page.get_by_role("textbox", name="Code").fill(code_at(time.time(), key))
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    check(page, "recovery-codes")
    recovery_code = page.locator("#recovery-codes").inner_text().split()[0]
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert recovery_code in Path(download.value.path()).read_text().splitlines()
    page.get_by_role("link", name="I have stored them").click()
    expect(page.get_by_role("heading", name="Signers")).to_be_visible()

    sign_out(page)
    # So that the code of this very moment can be used again.
    SecondFactor.objects.update(last_step=0)
    give_password(page)
    expect(page.get_by_role("heading", name="Enter a code")).to_be_visible()
    check(page, "code")
    page.get_by_role("textbox", name="Code").fill("123")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("This code is wrong")).to_be_visible()
    check(page, "wrong-code")
    give_code(page, code_at(time.time(), key))

    sign_out(page)
    give_password(page)
    give_code(page, recovery_code)
    expect(page.get_by_text("Unused recovery codes: 9.")).to_be_visible()
    page.goto("/admin/second-factor/")
    expect(page.get_by_text("Unused recovery codes: 9.")).to_be_visible()
    check(page, "overview")

    other = User.objects.create_user("otto", is_staff=True)
    enable(other, key, step=-1)
    page.goto(f"/admin/auth/user/{other.pk}/change/")
    page.get_by_role("link", name="Reset second factor").first.click()
    check(page, "reset")
    page.get_by_label("Reason").fill("Lost phone")
    page.get_by_role("button", name="Reset second factor").click()
    expect(page.get_by_text("The second factor of otto was reset.")).to_be_visible()
    reasons = AuditEntry.objects.order_by("id").values_list("reason", flat=True)
    assert list(reasons) == [
        *("Signed in", "Enabled the second factor", "Signed out"),
        *("Sign-in failed: wrong code", "Signed in with a code", "Signed out", "Signed in with a recovery code"),
        *("Enabled the second factor", "Reset the second factor: Lost phone"),
    ]
