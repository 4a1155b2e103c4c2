"""What operators do, from what they see on the overview to what they leave behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from notifications.models import Delivery, Notification
from relayer_service.background import tasks
from relayer_service.jobs import running
from relayer_service.models import AuditEntry, Job
from relayers.models import Relayer
from relayers.models.tags import save_tags
from tests import processes
from tests.browser.conftest import TakeScreenshot
from tests.concurrency import wait_until
from tests.notifications.receivers import answer, receiver
from tests.relayers import factories
from tests.relayers.factories import set_paused

# More than one batch of everything that takes batches of rows.
FLEET = 12_000


@pytest.fixture
def fleet(transactional_db: None) -> Notification:
    """A large fleet, of which every second relayer has a webhook."""
    signer, hook = factories.signer(), factories.notification()
    rows = [
        Relayer(
            identifier=f"relayer-{number}",
            name=f"Relayer {number}",
            network="sepolia",
            address=factories.ADDRESS,
            signer=signer,
            notification=hook if number % 2 else None,
        )
        for number in range(FLEET)
    ]
    Relayer.objects.bulk_create(rows, batch_size=1_000)
    return hook


def test_a_large_fleet_is_paused(page: Page, fleet: Notification, take_screenshot: TakeScreenshot) -> None:
    page.goto("/admin/relayers/relayer/", wait_until="networkidle")
    page.locator("#action-toggle").check()
    page.get_by_role("link", name=re.compile("^Select all")).click()
    page.locator("select[name=action]").select_option(label="Pause selected relayers")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("and 11,990 more")).to_be_visible()
    page.get_by_label("Reason").fill("The provider is down")
    take_screenshot(page, "pause-all")
    page.get_by_role("button", name="Pause relayers").click()
    expect(page.get_by_text("Paused: 12,000 relayers.")).to_have_count(1)
    assert Relayer.objects.filter(paused=True).count() == FLEET
    assert Delivery.objects.filter(event="relayer.paused", notification=fleet).count() == FLEET // 2
    assert AuditEntry.objects.filter(reason="The provider is down", actor="olga").count() == FLEET


@pytest.fixture
def worker(transactional_db: None, tmp_path: Path) -> Iterator[None]:
    tasks.prepare_queue()
    environment = {"WEBHOOK_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8", "WEBHOOK_SCHEDULE": "0,3600"}
    with (tmp_path / "worker").open("wb") as log:
        process = processes.worker(log, **environment)
        try:
            yield
        finally:
            processes.stop(process)


def test_a_failing_webhook_is_found_fixed_and_replayed(
    page: Page, worker: None, take_screenshot: TakeScreenshot
) -> None:
    with receiver(answer(500)) as target:
        hook = factories.notification("billing", url=target.url)
        relayer = factories.relayer(identifier="payroll", notification=hook, due_at=timezone.now().replace(year=2040))
        set_paused(relayer, True, "Maintenance")
        wait_until(lambda: Delivery.objects.get().attempts_made == 1)
        failed = page.locator(".attention li", has_text="billing")
        page.goto("/admin/", wait_until="networkidle")
        expect(failed).to_contain_text("Failing webhooks: Returned HTTP 500")
        take_screenshot(page, "webhook-failing")
        # The receiver is fixed.
        target.behaviour = answer(204)
        page.goto(f"/admin/relayers/relayer/{relayer.pk}/change/", wait_until="networkidle")
        page.get_by_role("link", name="Deliveries of this relayer").click()
        page.locator("#result_list th a").click()
        page.get_by_role("link", name="Replay").click()
        page.get_by_role("button", name="Replay").click()
        expect(page.get_by_text("Replayed: 1 delivery.")).to_be_visible()
        wait_until(lambda: Delivery.objects.get().state == "delivered")
        page.goto("/admin/", wait_until="networkidle")
        expect(failed).to_have_count(0)
        bodies = [received.body for received in target.requests]
        assert (len(bodies), len(set(bodies))) == (2, 1)


def test_twenty_relayers_get_a_gas_price_cap_and_lose_it_again(page: Page) -> None:
    for number in range(25):
        relayer = factories.relayer(identifier=f"payroll-{number:02}")
        save_tags({relayer.pk: ["payroll"] if number < 20 else ["other"]})
    page.goto("/admin/relayers/relayer/?tag=payroll", wait_until="networkidle")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option(label="Edit selected relayers")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("[name=gas_price_cap]")).to_be_hidden()
    page.get_by_label("Gas price cap", exact=True).select_option("Set to this price")
    page.get_by_label("New gas price cap").fill("30 gwei")
    page.get_by_label("Reason").fill("Costs")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("and 17 more")).to_be_visible()
    page.get_by_role("button", name="Change 20 relayers").click()
    job = Job.objects.get()
    running.run_job.call_local(job.pk)
    assert Relayer.objects.filter(policies={"gas_price_cap": 30 * 10**9}).count() == 20
    page.get_by_role("link", name="View its progress").click()
    page.get_by_role("link", name="Undo this edit").click()
    page.get_by_label("Reason").fill("Too low")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", name="Undo the edit of 20 relayers", level=2)).to_be_visible()
    running.run_job.call_local(Job.objects.latest("pk").pk)
    assert Relayer.objects.filter(policies={}).count() == 25
