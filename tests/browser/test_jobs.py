"""What staff have done with many rows at once: asked about, run in the worker, followed on a page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from relayer_service.jobs import running
from relayer_service.models import Job
from tests.browser.conftest import TakeScreenshot
from tests.relayers import factories

LIST = "/admin/signers/signer/"


def test_a_job_is_started_and_followed_to_its_end(
    page: Page, take_screenshot: TakeScreenshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some have a key that was damaged.
    for number in range(12):
        factories.signer(f"payroll-{number:02}", factories.KEY if number % 3 else "0xdamaged")
    page.goto(LIST, wait_until="networkidle")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option(label="Verify selected signers")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("and 2 more")).to_be_visible()
    page.get_by_role("button", name="Verify signers").click()
    page.get_by_role("link", name="View its progress").click()
    expect(page.get_by_text("Waiting for a worker")).to_be_visible()
    job = Job.objects.get()
    with monkeypatch.context() as patch:
        patch.setattr(running, "SLICE_SECONDS", 0)
        for _ in range(7):
            running.run_job.call_local(job.pk)
    # The page finds out by itself.
    expect(page.get_by_text("7 of 12.")).to_be_visible()
    take_screenshot(page, "job")
    running.run_job.call_local(job.pk)
    expect(page.get_by_text("Finished: 12 of 12.")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    error = "The key must be a secp256k1 private key: 32 bytes in hex."
    found = page.locator(".job tbody tr").all_inner_texts()
    assert found == [f"payroll-{number:02}\t{error}" for number in (0, 3, 6, 9)]
    page.wait_for_load_state("networkidle")
    page.get_by_role("link", name="in the audit log").click()
    expect(page.locator("#result_list tbody tr")).to_have_count(8)


def test_a_signer_in_use_explains_what_to_do_instead(page: Page, take_screenshot: TakeScreenshot) -> None:
    signer = factories.signer("treasury")
    for number in range(25):
        factories.relayer(identifier=f"payroll-{number:02}", signer=signer)
    page.goto(f"{LIST}{signer.pk}/delete/", wait_until="networkidle")
    expect(page.get_by_text("treasury is used by 25 relayers")).to_be_visible()
    take_screenshot(page, "signer-in-use")
