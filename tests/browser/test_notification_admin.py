"""What staff do with webhooks: add one, try it, see it arrive, and send it again."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect
from standardwebhooks import Webhook

from notifications.models import Attempt, Delivery, Notification
from tests import processes
from tests.browser.conftest import TakeScreenshot
from tests.relayer_service.jobs import run_jobs
from tests.relayers import factories

LIST = "/admin/notifications/notification/"
LOG = "/admin/notifications/delivery/"
KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BUTTONS = re.compile("Send test|Retry all|Disable$|Generate key|Replay|Retry now")
# What a target may answer, to the harm of whoever takes it for more than text.
ANSWER = b"<script>document.title = 'harm'</script><b>thanks</b>"


@pytest.fixture
def received() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def target(received: list[dict[str, Any]]) -> Iterator[str]:
    """The address of a program that verifies what it gets."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            event = Webhook(KEY).verify(body, headers)
            received.append({"webhook-id": headers["webhook-id"], "type": event["type"], "data": event["data"]})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(ANSWER)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/webhooks"
    server.shutdown()
    thread.join()
    server.server_close()


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
    billing = Notification.objects.create(
        identifier="billing", url="https://billing.example.com/webhooks", signing_key=KEY, tried=True
    )
    Notification.objects.create(
        identifier="status-page", url="https://status.example.com/hook", gone_at=now - timedelta(hours=2)
    )
    Notification.objects.create(
        identifier="pager",
        url="https://anna:s3cret@pager.example.com/v2/relayers",
        failing_since=now - timedelta(hours=2),
    )
    body = b'{"type":"relayer.disabled","timestamp":"2026-03-04T05:06:07.000000Z","data":{"relayer_id":"r-1"}}'
    for hour in range(23, -1, -1):
        for number in range(3 + hour % 5):
            state = "failed" if 8 <= hour <= 11 and number else "delivered"
            due_at = None
            if hour == 0 and number == 2:
                state, due_at = "pending", now + timedelta(minutes=29, seconds=30)
            failed = state != "delivered"
            moment = now - timedelta(hours=hour, minutes=2 * number)
            row = Delivery.objects.create(
                identifier=f"msg_{hour:02}{number:02}c0ffee5e6f708192a3b4c5d6e7f8",
                notification=billing,
                event=["relayer.disabled", "relayer.enabled"][number % 2],
                body=body,
                state=state,
                due_at=due_at,
                attempts_made={"delivered": 1, "pending": 3, "failed": 10}[state],
                response_code=503 if failed else 200,
                error="Returned HTTP 503." if failed else "",
                created_at=moment,
                attempted_at=moment,
            )
            answer = "upstream connect error or disconnect before headers" if failed else '{"ok": true}'
            for attempt in range(row.attempts_made):
                Attempt.objects.create(
                    delivery=row,
                    started_at=moment + timedelta(minutes=5 * attempt),
                    milliseconds=40 + attempt,
                    response_code=row.response_code,
                    answer=answer,
                    error=row.error,
                )
    return billing


def texts(locator: Locator) -> list[str]:
    return [" ".join(text.split()) for text in locator.all_inner_texts()]


def shown(page: Page, label: str) -> Locator:
    """Find what a page says behind a label."""
    row = page.locator("fieldset > div > div").filter(has=page.locator("label").get_by_text(label, exact=True))
    return row.locator(".readonly")


def reload_until(page: Page, locator: Locator, text: str) -> None:
    """Open the page anew until a worker has done its part."""
    for _ in range(100):
        if text in " ".join(texts(locator)):
            return
        page.wait_for_timeout(200)
        page.reload()
    raise AssertionError(f"{text!r} did not come: {texts(locator)}")


def test_a_webhook_is_added_tried_seen_to_arrive_and_replayed(
    page: Page, target: str, received: list[dict[str, Any]], worker: None, take_screenshot: TakeScreenshot
) -> None:
    page.goto(f"{LIST}add/")
    page.locator("[name=identifier]").fill("billing")
    page.locator("[name=url]").fill(target)
    page.locator("[name=new_signing_key]").fill(KEY)
    take_screenshot(page, "notification-add")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("was added successfully")).to_be_visible()

    page.get_by_role("button", name="Send test").click()
    expect(page.get_by_text("Test event sent to billing: ")).to_be_visible()

    page.get_by_role("link", name=re.compile("^msg_")).click()
    reload_until(page, shown(page, "State"), "DELIVERED")
    identifier = Delivery.objects.get().identifier
    event = {"webhook-id": identifier, "type": "notification.test", "data": {"notification_id": "billing"}}
    assert received == [event]
    expect(page.locator(".field-shown_answer pre")).to_have_text(ANSWER.decode())
    assert "harm" not in page.title()

    page.get_by_role("link", name="Replay").click()
    expect(page.get_by_text("Already delivered, and will be delivered again: 1 delivery.")).to_be_visible()
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_text("Replayed: 1 delivery.")).to_be_visible()
    reload_until(page, page.locator("#attempts-group .field-took"), "ms ")
    expect(page.locator("#attempts-group .field-shown_answer pre")).to_have_count(2)
    assert received == [event, event]


def test_the_list_of_notifications_shows_their_state(
    page: Page, history: Notification, take_screenshot: TakeScreenshot
) -> None:
    page.goto(LIST, wait_until="networkidle")
    rows = [texts(row.locator("th, td"))[1:5] for row in page.locator("#result_list tbody tr").all()]
    since = timezone.now() - timedelta(hours=2)
    assert [row[:3] for row in rows] == [
        ["pager", "https://pager.example.com/v2/relayers", "NONE"],
        ["status-page", "https://status.example.com/hook", "NONE"],
        ["billing", "https://billing.example.com/webhooks", "SET"],
    ]
    assert rows[0][3].startswith(f"FAILING, RETRYING since {since:%Y-%m-%d}")
    gone = rows[0][3].replace("FAILING, RETRYING since", "STOPPED returned 410 at")
    assert [row[3] for row in rows[1:]] == [gone, "WORKING"]
    take_screenshot(page, "notifications")


def test_the_page_of_a_notification_charts_its_last_day_and_leads_to_its_deliveries(
    page: Page, history: Notification, take_screenshot: TakeScreenshot
) -> None:
    page.goto(f"{LIST}{history.pk}/change/", wait_until="networkidle")
    expect(page.locator("[name=new_signing_key]")).to_have_value("")
    assert KEY not in page.content()
    chart = page.locator("canvas.chart")
    assert painted(chart) > 1000
    assert texts(page.locator("main").get_by_role("button", name=BUTTONS)) == ["Retry all", "Send test"]
    assert texts(page.locator("main").get_by_role("link", name=BUTTONS)) == ["Disable", "Generate key"]
    take_screenshot(page, "notification")
    page.get_by_role("link", name="All deliveries").click()
    expect(page.locator("#result_list tbody tr")).to_have_count(50)
    assert set(texts(page.locator("#result_list .field-notification"))) == {"billing"}


def painted(chart: Locator) -> int:
    """Count the points of a canvas that are not empty."""
    points: int = chart.evaluate(
        "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter((v, i) => i % 4 == 3 && v).length"
    )
    return points


def test_the_log_of_deliveries_is_filtered(page: Page, history: Notification, take_screenshot: TakeScreenshot) -> None:
    page.goto(LOG, wait_until="networkidle")
    take_screenshot(page, "deliveries")
    page.locator("#tabs-items").get_by_role("link", name="Failed").click()
    page.locator("#changelist a").get_by_text("Filters").click()
    page.get_by_role("combobox").filter(
        has=page.locator("#select2-id_notification__sequence__exact-container")
    ).click()
    page.locator(".select2-search__field").fill("bill")
    page.locator(".select2-results").get_by_text("billing").click()
    page.get_by_role("button", name="Apply Filters").click()
    expect(page).to_have_url(re.compile(f"notification__sequence__exact={history.pk}"))
    failed = Delivery.objects.filter(state="failed").count()
    expect(page.locator("#result_list tbody tr")).to_have_count(failed)
    assert set(texts(page.locator("#result_list .field-shown_state"))) == {"FAILED"}


def test_all_that_failed_is_replayed_after_it_was_confirmed(
    page: Page, history: Notification, take_screenshot: TakeScreenshot
) -> None:
    failed = Delivery.objects.filter(state="failed").count()
    page.goto(f"{LOG}?state__exact=failed", wait_until="networkidle")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option(label="Replay selected deliveries")
    page.get_by_role("button", name="Run").click()
    expect(
        page.get_by_text(
            f"Sends {failed} deliveries again from the start of the schedule, with the same webhook-id and body."
        )
    ).to_be_visible()
    assert texts(page.locator(".confirmation td")) == ["billing", "https://billing.example.com/webhooks", str(failed)]
    take_screenshot(page, "deliveries-replay")
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_text(f"Started in the worker: Replay {failed} deliveries.")).to_be_visible()
    run_jobs()
    assert not Delivery.objects.filter(state="failed").exists()


def test_the_page_of_a_delivery_shows_its_attempts(
    page: Page, history: Notification, take_screenshot: TakeScreenshot
) -> None:
    delivery = Delivery.objects.get(state="pending")
    page.goto(f"{LOG}{delivery.pk}/change/", wait_until="networkidle")
    expect(page.locator("#attempts-group .field-took")).to_have_count(3)
    assert texts(shown(page, "Next attempt")) == ["in 29 minutes"]
    take_screenshot(page, "delivery")
    page.get_by_role("link", name="Retry now").click()
    page.get_by_role("button", name="Retry now").click()
    expect(page.get_by_text("Retried: 1 delivery.")).to_be_visible()


def test_staff_who_may_only_view_can_look_and_no_more(sign_in: Callable[[User], Page], history: Notification) -> None:
    auditor = User.objects.create_user("auditor", is_staff=True)
    auditor.user_permissions.set(Permission.objects.filter(codename__in=["view_notification", "view_delivery"]))
    page = sign_in(auditor)
    pending = Delivery.objects.get(state="pending")
    pager = Notification.objects.get(identifier="pager")
    for path in (LIST, f"{LIST}{pager.pk}/change/", LOG, f"{LOG}{pending.pk}/change/"):
        page.goto(path, wait_until="networkidle")
        expect(page.get_by_text(re.compile("pager|billing")).first).to_be_visible()
        assert "s3cret" not in page.content()
        assert page.locator("select[name=action]").count() == 0
        assert page.get_by_role("link", name=BUTTONS).count() == 0
        assert page.get_by_role("button", name=BUTTONS).count() == 0
        assert page.get_by_role("button", name="Save").count() == 0


@pytest.mark.parametrize("path", [f"{LIST}add/", f"{LIST}{{hook}}/change/", LOG, f"{LOG}{{row}}/change/"])
def test_a_phone_shows_a_page_without_sideways_scrolling(page: Page, history: Notification, path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    # As long as those of chat services are, with no place to break it at.
    Notification.objects.filter(pk=history.pk).update(url="https://hooks.example.com/api/webhooks/" + "A1b2" * 25)
    row = Delivery.objects.filter(state="failed")[0]
    page.goto(path.format(hook=history.pk, row=row.pk), wait_until="networkidle")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0


def test_a_target_is_disabled_on_its_page(page: Page, take_screenshot: TakeScreenshot) -> None:
    notification = Notification.objects.create(identifier="billing", url="https://billing.example.com/webhooks")
    for number in range(12):
        factories.relayer(identifier=f"relayer-{number}", notification=notification)
    page.goto(f"{LIST}{notification.pk}/change/", wait_until="networkidle")
    page.locator("[name=enabled]").uncheck()
    take_screenshot(page, "notification-enabled")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert not Notification.objects.get().enabled
    page.get_by_text("relayer-9").scroll_into_view_if_needed()
    take_screenshot(page, "notification-used-by")
    page.goto(LIST, wait_until="networkidle")
    take_screenshot(page, "notifications-disabled")


@pytest.mark.parametrize("width", [1440, 390])
def test_state_error_next_attempt_and_buttons_are_in_the_first_screen(
    page: Page, history: Notification, width: int
) -> None:
    height = 900 if width == 1440 else 844
    page.set_viewport_size({"width": width, "height": height})
    Notification.objects.filter(pk=history.pk).update(failing_since=timezone.now() - timedelta(hours=2))
    page.goto(f"{LIST}{history.pk}/change/", wait_until="networkidle")
    for name in ("State", "Error", "Since", "Next attempt"):
        expect(page.locator(".status-facts dt").get_by_text(name, exact=True)).to_be_in_viewport()
    expect(page.get_by_text("Returned HTTP 503.").first).to_be_in_viewport()
    for name in ("Retry all", "Send test"):
        expect(page.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
    expect(page.locator("main").get_by_role("link", name="Disable")).to_be_in_viewport(ratio=1)


def test_a_key_is_generated_copied_and_the_previous_one_ended(page: Page, history: Notification) -> None:
    page.goto(f"{LIST}{history.pk}/change/")
    page.get_by_role("link", name="Generate key").click()
    page.get_by_role("button", name="Generate key").click()
    key = page.locator("#generated-key").inner_text()
    history.refresh_from_db()
    assert (history.signing_key, history.other_signing_keys()) == (key, [KEY])
    page.get_by_role("link", name="Back to the webhook").click()
    expect(page.get_by_text("The previous key also signs until")).to_be_visible()
    page.get_by_role("link", name="End now").click()
    page.get_by_role("button", name="End previous key").click()
    expect(page.get_by_text("billing: only the current key signs.")).to_be_visible()
    assert key not in page.content()


def test_a_delivery_is_copied_as_curl(page: Page, history: Notification) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    delivery = Delivery.objects.get(state="pending")
    page.goto(f"{LOG}{delivery.pk}/change/")
    page.get_by_role("button", name="Copy as curl").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied: str = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("curl -i -X POST \\\n  -H 'Content-Type: application/json'")
    assert copied.endswith(" \\\n  https://billing.example.com/webhooks")


def test_events_are_chosen_from_a_list(page: Page) -> None:
    page.goto("/admin/notifications/notification/add/")
    page.locator("[name=identifier]").fill("hook-1")
    page.locator("[name=url]").fill("https://hooks.example.com")
    page.get_by_label("token.expiring").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    assert Notification.objects.get().events == "relayer.* token.expiring transaction.*"
