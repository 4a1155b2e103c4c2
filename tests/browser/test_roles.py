"""A colleague with the role Operator in an incident."""

from __future__ import annotations

from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, Locator, expect

from notifications.models import Delivery
from relayer_service import roles
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from tests.notifications.factories import emit_test
from tests.relayers import factories

SECRET = "s3cr3t"
PASSWORD = "a-long-password-of-vera"


def test_an_operator_pauses_and_replays_in_nine_clicks_but_sees_no_secret(
    context: BrowserContext, transactional_db: None
) -> None:
    hook = factories.notification(url=f"https://hooks.example.com/{SECRET}")
    factories.relayer(notification=hook, rpc_urls=[{"url": f"http://127.0.0.1:9/{SECRET}", "weight": 100}])
    row = emit_test(hook)
    Delivery.objects.filter(pk=row.pk).update(state="failed", due_at=None, response_code=500)
    roles.assign(User.objects.create_user("vera", password=PASSWORD, is_staff=True), "Operator")
    page = context.new_page()
    clicks = []

    def click(target: Locator) -> None:
        clicks.append(target)
        assert SECRET not in page.content()
        target.click()

    page.goto("/admin/")
    page.get_by_label("Username").fill("vera")
    page.get_by_label("Password").fill(PASSWORD)
    click(page.get_by_role("button", name="Log in"))
    expect(page).to_have_title("Overview | Relayer Management")
    shown = page.locator("#nav-sidebar-apps")
    expect(shown.get_by_role("link", name="Users")).to_have_count(0)

    click(shown.get_by_role("link", name="Relayers"))
    expect(page.get_by_role("link", name="Add relayer")).to_have_count(0)
    click(page.get_by_role("link", name="Relayer 1"))
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    page.wait_for_load_state("networkidle")
    click(page.get_by_role("link", name="Pause"))
    page.get_by_label("Reason").fill("The provider is down")
    click(page.get_by_role("button", name="Pause relayer"))
    expect(page.get_by_text("Paused: 1 relayer.")).to_have_count(1)
    assert Relayer.objects.get().paused
    assert AuditEntry.objects.filter(actor="vera", reason="The provider is down").count() == 1

    click(shown.get_by_role("link", name="Deliveries"))
    click(page.get_by_role("link", name=row.identifier))
    click(page.get_by_role("link", name="Replay"))
    click(page.get_by_role("button", name="Replay"))
    expect(page.get_by_text("Replayed: 1 delivery.")).to_have_count(1)
    assert Delivery.objects.get(pk=row.pk).state == "pending"
    assert len(clicks) == 9
