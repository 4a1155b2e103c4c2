"""What staff have done with many rows at once: asked about, run in the worker, followed on a page, stopped."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from relayer_service.jobs import running
from relayer_service.models import Job
from signers.models import Signer
from tests.browser.conftest import TakeScreenshot
from tests.relayers import factories

LIST = "/admin/signers/signer/"


@pytest.fixture
def signers(transactional_db: None) -> list[Signer]:
    """A dozen signers, some with a key that was damaged."""
    keys = [factories.KEY if number % 3 else "0xdamaged" for number in range(12)]
    return [factories.signer(f"payroll-{number:02}", key) for number, key in enumerate(keys)]


def start_verifying(page: Page) -> None:
    page.goto(LIST, wait_until="networkidle")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option(label="Verify selected signers")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("and 2 more")).to_be_visible()
    page.get_by_role("button", name="Verify signers").click()
    page.get_by_role("link", name="View its progress").click()
    expect(page.get_by_text("Waiting for a worker")).to_be_visible()


def test_a_job_is_started_and_followed_to_its_end(
    page: Page, signers: list[Signer], take_screenshot: TakeScreenshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_verifying(page)
    job = Job.objects.get()
    monkeypatch.setattr(running, "SLICE_SECONDS", 0)
    for _ in range(7):
        running.run_job.call_local(job.pk)
    # The page finds out by itself.
    expect(page.get_by_text("7 of 12.")).to_be_visible()
    take_screenshot(page, "job")
    monkeypatch.undo()
    running.run_job.call_local(job.pk)
    expect(page.get_by_text("Finished: 12 of 12.")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    found = page.locator(".job tbody tr").all_inner_texts()
    error = "The key must be a secp256k1 private key: 32 bytes in hex."
    assert found == [f"payroll-{number:02}\t{error}" for number in (0, 3, 6, 9)]
    page.wait_for_load_state("networkidle")
    take_screenshot(page, "job-finished")
    page.get_by_role("link", name="in the audit log").click()
    expect(page.locator("#result_list tbody tr")).to_have_count(8)


def test_a_job_is_stopped_on_a_phone(page: Page, signers: list[Signer], take_screenshot: TakeScreenshot) -> None:
    start_verifying(page)
    page.set_viewport_size({"width": 390, "height": 844})
    take_screenshot(page, "job-phone")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped by olga after 0 of 12.")).to_be_visible()
    assert Job.objects.get().state == "stopped"
    page.goto("/admin/relayer_service/job/", wait_until="networkidle")
    take_screenshot(page, "jobs-phone")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0


def test_a_signer_in_use_explains_what_to_do_instead(page: Page, staff: User, take_screenshot: TakeScreenshot) -> None:
    signer = factories.signer("treasury")
    for number in range(25):
        factories.relayer(identifier=f"payroll-{number:02}", signer=signer)
    factories.relayer(identifier="other", signer=factories.signer("other"))
    page.goto(f"{LIST}{signer.pk}/delete/", wait_until="networkidle")
    expect(page.get_by_text("treasury is used by 25 relayers")).to_be_visible()
    take_screenshot(page, "signer-in-use")
    page.get_by_role("link", name="list the relayers").click()
    expect(page.locator("#result_list tbody tr")).to_have_count(25)
