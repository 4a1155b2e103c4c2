"""What staff do with webhooks: add one, try it, see it arrive, and send it again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from notifications.models import Attempt, Delivery, Notification
from tests import processes
from tests.browser.conftest import TakeScreenshot
from tests.notifications.receivers import answer, receiver

LIST = "/admin/notifications/notification/"
LOG = "/admin/notifications/delivery/"
KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
# What a target may answer, to the harm of whoever takes it for more than text.
ANSWER = b"<script>document.title = 'harm'</script><b>thanks</b>"
BODY = b'{"type":"relayer.disabled","timestamp":"2026-03-04T05:06:07.000000Z","data":{"relayer_id":"r-1"}}'


@pytest.fixture
def worker(transactional_db: None, tmp_path: Path) -> Iterator[None]:
    with (tmp_path / "worker").open("wb") as log:
        process = processes.worker(log)
        yield
        processes.stop(process)


@pytest.fixture
def history(transactional_db: None) -> Notification:
    """A notification as it looks after a day with an outage of some hours."""
    now = timezone.now()
    url = "https://billing.example.com/webhooks"
    hook = Notification.objects.create(identifier="billing", url=url, signing_key=KEY, tried=True)
    attempts = []
    for hour, number in ((h, n) for h in range(23, -1, -1) for n in range(3 + h % 5)):
        state = "failed" if 8 <= hour <= 11 and number else "delivered"
        due_at = None
        if (hour, number) == (0, 2):
            state, due_at = "pending", now + timedelta(minutes=29, seconds=30)
        code, error, text = (200, "", '{"ok": true}')
        if state != "delivered":
            code, error, text = (503, "Returned HTTP 503.", "upstream connect error or disconnect before headers")
        moment = now - timedelta(hours=hour, minutes=2 * number)
        row = Delivery.objects.create(
            identifier=f"msg_{hour:02}{number:02}c0ffee5e6f708192a3b4c5d6e7f8",
            notification=hook,
            event=["relayer.disabled", "relayer.enabled"][number % 2],
            body=BODY,
            state=state,
            due_at=due_at,
            attempts_made={"delivered": 1, "pending": 3, "failed": 10}[state],
            response_code=code,
            error=error,
            created_at=moment,
            attempted_at=moment,
        )
        for attempt in range(row.attempts_made):
            started = moment + timedelta(minutes=5 * attempt)
            values = {"milliseconds": 40 + attempt, "response_code": code, "answer": text, "error": error}
            attempts.append(Attempt(delivery=row, started_at=started, **values))
    Attempt.objects.bulk_create(attempts)
    return hook


def reload_until(page: Page, locator: Locator, text: str) -> None:
    """Open the page anew until a worker has done its part."""
    for _ in range(100):
        if text in " ".join(" ".join(locator.all_inner_texts()).split()):
            return
        page.wait_for_timeout(200)
        page.reload()
    raise AssertionError(f"{text!r} did not come: {locator.all_inner_texts()}")


def test_a_webhook_is_added_tried_seen_to_arrive_and_replayed(page: Page, worker: None) -> None:
    with receiver(answer(200, ANSWER), key=KEY) as target:
        page.goto(f"{LIST}add/")
        page.locator("[name=identifier]").fill("billing")
        page.locator("[name=url]").fill(target.url)
        page.locator("[name=new_signing_key]").fill(KEY)
        page.get_by_label("token.expiring").check()
        page.get_by_role("button", name="Save and continue editing").click()
        expect(page.get_by_text("was added successfully")).to_be_visible()
        assert Notification.objects.get().events == "relayer.* token.expiring transaction.*"

        page.get_by_role("button", name="Send test").click()
        expect(page.get_by_text("Test event sent to billing: ")).to_be_visible()
        page.get_by_role("link", name=re.compile("^msg_")).click()
        reload_until(page, page.locator("main"), "DELIVERED")
        expect(page.locator(".field-shown_answer pre")).to_have_text(ANSWER.decode())
        assert "harm" not in page.title()

        page.get_by_role("link", name="Replay").click()
        expect(page.get_by_text("Already delivered, and will be delivered again: 1 delivery.")).to_be_visible()
        page.get_by_role("button", name="Replay").click()
        expect(page.get_by_text("Replayed: 1 delivery.")).to_be_visible()
        reload_until(page, page.locator("#attempts-group .field-took"), "ms ")
        expect(page.locator("#attempts-group .field-shown_answer pre")).to_have_count(2)
    identifier = Delivery.objects.get().identifier
    assert (target.webhook_ids, target.forged) == ([identifier] * 2, [])
    events = [orjson.loads(request.body) for request in target.requests]
    assert [(event["type"], event["data"]) for event in events] == [
        ("notification.test", {"notification_id": "billing"})
    ] * 2


PAINTED = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter((v, i) => i % 4 == 3 && v).length"


def test_the_page_of_a_webhook_has_its_state_and_buttons_in_the_first_screen_and_a_chart(
    page: Page, history: Notification
) -> None:
    Notification.objects.update(failing_since=timezone.now() - timedelta(hours=2))
    for width, height in ((390, 844), (1440, 900)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto(f"{LIST}{history.pk}/change/", wait_until="networkidle")
        for name in ("State", "Error", "Since", "Next attempt"):
            expect(page.locator(".status-facts dt").get_by_text(name, exact=True)).to_be_in_viewport()
        expect(page.get_by_text("Returned HTTP 503.").first).to_be_in_viewport()
        for name in ("Retry all", "Send test"):
            expect(page.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        expect(page.locator("main").get_by_role("link", name="Disable")).to_be_in_viewport(ratio=1)
    assert page.locator("canvas.chart").evaluate(PAINTED) > 1000
    assert KEY not in page.content()


def test_deliveries_are_filtered_and_replayed(
    page: Page, history: Notification, take_screenshot: TakeScreenshot
) -> None:
    page.goto(LOG, wait_until="networkidle")
    take_screenshot(page, "deliveries")
    page.locator("#tabs-items").get_by_role("link", name="Failed").click()
    page.get_by_role("button", name="Filters", exact=True).press("Enter")
    chooser = page.locator("#select2-id_notification__sequence__exact-container")
    page.get_by_role("combobox").filter(has=chooser).click()
    page.locator(".select2-search__field").fill("bill")
    page.locator(".select2-results").get_by_text("billing").click()
    page.get_by_role("button", name="Apply Filters").click()
    expect(page).to_have_url(re.compile(f"notification__sequence__exact={history.pk}"))
    failed = Delivery.objects.filter(state="failed").count()
    expect(page.locator("#result_list tbody tr")).to_have_count(failed)
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option(label="Replay selected deliveries")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text(f"Sends {failed} deliveries again from the start of the schedule")).to_be_visible()
    take_screenshot(page, "deliveries-replay")


def test_a_delivery_is_copied_as_curl(page: Page, history: Notification, take_screenshot: TakeScreenshot) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    delivery = Delivery.objects.get(state="pending")
    page.goto(f"{LOG}{delivery.pk}/change/", wait_until="networkidle")
    expect(page.locator("#attempts-group .field-took")).to_have_count(3)
    take_screenshot(page, "delivery")
    page.get_by_role("button", name="Copy as curl").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied: str = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("curl -i -X POST \\\n  -H 'Content-Type: application/json'")
    assert copied.endswith(" \\\n  https://billing.example.com/webhooks")
