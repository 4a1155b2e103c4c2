"""Lists are readable in windows of all widths, whatever their rows hold."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone
from playwright.sync_api import Page

from notifications.models import Delivery
from relayer_service.models import AuditEntry, Job, PeriodicRun
from rpc.models import FeeToken
from signers.models import Signer
from tests.browser.test_accessibility import JOB, LISTS
from tests.incidents import factories as alerts
from tests.notifications.factories import emit_test
from tests.relayers import factories
from tests.spending.payloads import ALICE, APPROVE, TOKEN, TRANSFER, call
from tests.transactions import factories as sending
from tokens import uses
from tokens.writes import issue

WIDTHS = (390, 768, 1024, 1280, 1440, 1920)
# What has no spaces to break at, such as an address or a URL, is broken after as many characters at least. If a cell
# cuts its text off, half as many are readable.
LONGEST_WORD = 14
NAME = "Payments to suppliers in Europe, the Middle East and Africa"
IDENTIFIER = "payments-to-suppliers-in-europe-the-middle-east-and-africa-mainnet-1"
URL = "https://hooks.notifications.example.com/v1/relayers/3f1c2a52-6a0c-4d1b-9d52-1d0f6a1f0c11?environment=production"
REASON = (
    "The provider throttles the account since the migration of 14 November; see "
    "https://status.provider.example.com/incidents/01JCM6T3X0Y4ZK and ask 0x70997970C51812dc3A010C7d01b50e0d17dc79C8."
)
# Lists of so many columns that they scroll within the page.
SCROLLING = {"notifications/delivery", "transactions/lane"}
# Returns words that are wider than their cell, columns of differently aligned cells, and a page that is too wide.
MEASURE = """([longest, scrolls]) => {
  const faults = new Set(), name = cell => cell.className.split(" ")[0];
  const pen = document.createElement("canvas").getContext("2d");
  for (const cell of document.querySelectorAll("main :is(th, td)")) {
    // Headers for screen readers alone have one pixel.
    if (!cell.checkVisibility() || cell.closest("thead")?.clientWidth === 1) continue;
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const parents = [];
      const text = texts.currentNode.parentElement;
      if (!text.checkVisibility() || text.closest(".material-symbols-outlined, script")) continue;
      for (let each = text; cell.contains(each); each = each.parentElement) parents.push(each);
      const styles = parents.map(each => getComputedStyle(each));
      const nearest = styles.findIndex(each => !each.display.startsWith("inline"));
      const block = parents[nearest], style = styles[nearest];
      const room = block.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      const isShortened = styles.some(each => each.textOverflow === "ellipsis");
      const words = texts.currentNode.data.match(/[^\\s-]+-?/g) ?? [];
      pen.font = `${styles[0].fontWeight} ${styles[0].fontSize} ${styles[0].fontFamily}`;
      for (const word of isShortened ? words.slice(0, 1) : words) {
        const start = word.slice(0, isShortened ? longest / 2 : longest);
        if (pen.measureText(start).width > room + 1) faults.add(`${name(cell)}: no room for “${word}”`);
      }
    }
  }
  const columns = {};
  for (const cell of document.querySelectorAll("#result_list td[class]")) {
    if (innerWidth >= 1024) (columns[name(cell)] ??= new Set()).add(getComputedStyle(cell).textAlign);
  }
  for (const [column, aligned] of Object.entries(columns)) {
    if (aligned.size > 1) faults.add(`${column}: the cells are aligned differently`);
  }
  const table = document.querySelector("#result_list");
  if (!scrolls && table?.offsetWidth > table?.parentElement.clientWidth + 1) faults.add("the list scrolls sideways");
  for (const each of innerWidth < 768 ? document.querySelectorAll(".wide-table") : []) {
    if (each.scrollWidth > each.clientWidth) faults.add(`${each.ariaLabel}: the table scrolls sideways`);
  }
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) faults.add(`the page is ${wide} pixels too wide`);
  return [...faults];
}"""


@pytest.fixture
def paths(staff: User) -> list[str]:
    """The lists, each with a row of long values."""
    now = timezone.now()
    signer = factories.signer(IDENTIFIER)
    hook = factories.notification(IDENTIFIER, URL)
    relayer = factories.relayer(
        identifier=IDENTIFIER,
        name=NAME,
        network="arbitrum-sepolia",
        signer=signer,
        notification=hook,
        balance_text=str(12345678901234567890123),
        checked_at=now,
        nonce=7,
        balance_at=now - timedelta(days=3),
        outflow_days=[[int(now.timestamp()) // 86400 * 86400, "1000"]],
        system_disabled=True,
        disabled_reason_type="NonceSyncFailed",
        disabled_reason_details=REASON,
        balance_is_low=True,
        paused=True,
    )
    factories.relayer(identifier="relayer-2")
    lane = sending.lane(
        relayer,
        holds={name: {"since": now.isoformat(), "details": REASON} for name in ("operator", "lost_commits")},
        held_since=now,
        waiting="funds",
        waiting_since=now,
        first_nonce=0,
        chain_nonce=123456,
        next_nonce=123460,
    )
    sending.transaction(
        lane, nonce=123456, status="submitted", status_reason=REASON, value_text=str(10**24), identifier=IDENTIFIER
    )
    delivery = emit_test(hook)
    Delivery.objects.filter(pk=delivery.pk).update(
        error=REASON, response_code=503, attempts_made=17, subject=IDENTIFIER, attempted_at=now
    )
    token = issue(name=NAME, user=staff, expires_at=now + timedelta(days=3))[0]
    unlimited = call(APPROVE, ALICE, 2**256 - 1)
    sending.transaction(
        lane, requester=token.key, requested_by=str(token), to=TOKEN, data=unlimited, value_text=str(10**24 + 1)
    )
    sending.transaction(lane, to=TOKEN, data=call(TRANSFER, ALICE, 10**15 - 1))
    uses.count(token.pk, "2001:0db8:85a3:0000:0000:8a2e:0370:7334", 403, "")
    uses.flush()
    User.objects.filter(pk=staff.pk).update(email="olga.of.the.operations.team@relayers.example.com")
    Group.objects.create(name=NAME)
    Signer.objects.update(verified_identity=factories.ADDRESS, verified_at=now)
    FeeToken.objects.create(
        network="arbitrum-sepolia", symbol="USDC", address=factories.ADDRESS, rate_error=REASON, rated_at=now
    )
    PeriodicRun.objects.create(
        name="send_expiring_tokens_reminders", slot=1, started_at=now, finished_at=now, seconds=0.02, failed=True
    )
    Job.objects.create(title=f"Edit 20 relayers of {NAME}", **JOB)
    changes = {
        "custom_rpc_urls": [[], [{"url": URL, "weight": 100}]],
        "address": ["", factories.ADDRESS],
        "paused": [False, True],
    }
    alerts.route(
        IDENTIFIER,
        URL,
        on_call=NAME,
        enabled=False,
        kinds=["node_down", "stuck"],
        networks=["arbitrum-sepolia", "mainnet"],
    )
    alerts.incident(
        relayer, title=f"arbitrum-sepolia: {REASON}", acknowledged_by=NAME, acknowledged_at=now, note=REASON
    )
    AuditEntry.objects.create(
        at=now,
        object_type="notification",
        object_pk=str(hook.pk),
        object_id=IDENTIFIER,
        action="acted",
        reason="Sent a test event, msg_8ca8b1e3715947429f9c53d839ba8554",
    )
    AuditEntry.objects.create(
        at=now,
        object_type="relayer",
        object_pk=str(relayer.pk),
        object_id=IDENTIFIER,
        action="changed",
        changes=changes,
        actor_kind="token",
        actor=NAME,
        actor_key="0123456789ab",
        address="2001:0db8:85a3:0000:0000:8a2e:0370:7334",
        reason=REASON,
    )
    return [
        *(f"/admin/{name}/" for name in LISTS),
        "/admin/relayers/relayer/nodes/",
        f"/admin/relayers/relayer/{relayer.pk}/history/",
        f"/admin/tokens/accesstoken/{token.pk}/change/",
        f"/admin/tokens/accesstoken/{token.pk}/leaked/",
    ]


def test_lists_of_long_values_fit_windows_of_all_widths(page: Page, paths: list[str]) -> None:
    faults: list[str] = []
    for path in paths:
        page.goto(path)
        page.wait_for_function("!document.querySelector('html[x-cloak]')")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            found = page.evaluate(MEASURE, [LONGEST_WORD, path.strip("/").removeprefix("admin/") in SCROLLING])
            faults += [f"{path} at {width}: {fault}" for fault in found]
    assert faults == []


def test_only_amounts_end_a_confirmation_table_on_the_right(page: Page) -> None:
    relayer = factories.relayer()
    page.goto(f"/admin/relayers/relayer/{relayer.pk}/pause/", wait_until="networkidle")
    last = page.locator(".confirmation td:last-child")
    aligned = "cell => getComputedStyle(cell).textAlign"
    assert last.evaluate(aligned) == "left"
    last.evaluate("cell => cell.innerHTML = '<span class=amount>1 ETH</span>'")
    cells = page.locator(".confirmation :is(td, th):last-child")
    assert [cell.evaluate(aligned) for cell in cells.all()] == ["right", "right"]
