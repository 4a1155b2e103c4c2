"""axe-core finds nothing serious or critical on any page, in both themes, on a desk and on a phone.

A page is looked at in the light theme on a desk and in the dark one on a phone: what theme and width change together
is in the templates, of each of which one page is looked at in all four ways, and with its navigation.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone
from playwright.sync_api import Browser, Page

from chain.networks import networks
from chain.nodes.observers import node_key
from notifications.models import Notification
from relayer_service.jobs import running
from relayer_service.models import AuditEntry, Job, PeriodicRun
from relayers.models import Relayer
from rpc.models import FeeToken
from tests.browser.conftest import PATIENCE, add_session
from tests.incidents import factories as alerts
from tests.notifications.factories import emit_test
from tests.relayers import factories
from tests.relayers.factories import set_paused
from tests.transactions import factories as sending
from tokens import uses
from tokens.writes import issue
from transactions.models import Lane, Transaction

AXE = Path(__file__).parent.parent / "node/node_modules/axe-core/axe.min.js"
# With what installs the node of the tests.
needs_axe = pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed")
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
LIGHT_DESK, DARK_PHONE, DARK_DESK, LIGHT_PHONE = ("light", DESK), ("dark", PHONE), ("dark", DESK), ("light", PHONE)
# A page of each template.
TEMPLATES = [
    *("/admin/login/", "/admin/", "/admin/second-factor/", "/admin/relayers/relayer/", "/admin/relayers/relayer/add/"),
    *("/admin/relayers/relayer/nodes/", "/admin/transactions/transaction/gas/", "/admin/no-such-page/"),
    *("/admin/relayers/relayer/{relayers/relayer}/change/", "/admin/relayers/relayer/{relayers/relayer}/pause/"),
    "/admin/relayers/relayer/{relayers/relayer}/try_it/",
    "/admin/notifications/notification/{notifications/notification}/change/",
    "/admin/transactions/transaction/{transactions/transaction}/change/",
    "/admin/tokens/accesstoken/{tokens/accesstoken}/leaked/",
    *("/admin/incidents/incident/{incidents/incident}/change/", "/admin/incidents/incident/runbooks/"),
    "/admin/incidents/alertroute/{incidents/alertroute}/change/",
    *("/admin/signers/signer/{signers/signer}/history/", "/admin/signers/signer/{signers/signer}/delete/"),
]

LISTS = [
    *("relayers/relayer", "rpc/feetoken", "signers/signer", "notifications/notification", "notifications/delivery"),
    *("tokens/accesstoken", "auth/user", "auth/group", "relayer_service/auditentry", "relayer_service/periodicrun"),
    *("relayer_service/job", "transactions/transaction", "transactions/lane"),
    *("incidents/incident", "incidents/alertroute"),
]
READ_ONLY = {
    "incidents/incident",
    *("notifications/delivery", "relayer_service/auditentry", "relayer_service/periodicrun", "relayer_service/job"),
    *("transactions/transaction", "transactions/lane"),
}
SINGLE = [
    *("", "account/", "password_change/", "second-factor/", "auth/user/{auth/user}/password/"),
    # What asks before something is done.
    *("relayers/relayer/{relayers/relayer}/change/#settings", "relayers/relayer/{relayers/relayer}/pause/"),
    *(
        "relayers/relayer/{relayers/relayer}/change/#transactions",
        "notifications/delivery/{notifications/delivery}/replay/",
    ),
    *("transactions/lane/{transactions/lane}/hold/", "transactions/lane/{transactions/lane}/release/"),
    *("tokens/accesstoken/{tokens/accesstoken}/rotate/", "incidents/incident/runbooks/"),
    *("tokens/accesstoken/{tokens/accesstoken}/revoke/", "tokens/accesstoken/{tokens/accesstoken}/leaked/"),
    *("tokens/accesstoken/{tokens/accesstoken}/reissue/", "tokens/accesstoken/{tokens/accesstoken}/cancel_pending/"),
    "notifications/notification/{notifications/notification}/disable/",
    "notifications/notification/{notifications/notification}/generate_key/",
    "transactions/transaction/gas/",
    *("relayers/relayer/{relayers/relayer}/try_it/", "relayers/relayer/{relayers/relayer}/sweep/"),
    *("relayers/relayer/nodes/", "relayers/relayer/nodes/{node}/take_out/"),
    "transactions/transaction/{transactions/transaction}/cancel/",
    *(
        "relayers/relayer/{relayers/relayer}/change/#policies",
        "transactions/transaction/{transactions/transaction}/speed_up/",
    ),
]

# What the overview and the time line have something to say about.
HOUR = int(timezone.now().timestamp()) // 3600 * 3600
TROUBLE: dict[str, Any] = {
    "balance_is_low": True,
    "policies": {"min_balance": 10},
    "balance_text": "5",
    "balance_hours": [[HOUR - 7200, "12"], [HOUR, "5"]],
    "minimum_hours": [[HOUR - 7200, "10"]],
    "outflow_days": [[HOUR // 86400 * 86400, "7"]],
}
JOB: dict[str, Any] = {
    "kind": "verify_signers",
    "actor": "olga",
    "selection": "1x2",
    "total": 2,
    "done": 1,
    "failed": 1,
    "failures": [["signer-1", "It is damaged."]],
    "state": "running",
    "due_at": timezone.now(),
}

# Without transitions, which show colours that no theme has.
SET_THEME = """theme => {
  document.documentElement.classList.toggle("dark", theme === "dark");
  const style = document.createElement("style");
  style.textContent = "* { animation: none !important; transition: none !important }";
  document.head.append(style);
}"""
FIND = """async ([options, exclude]) => {
  const found = await axe.run({exclude}, {resultTypes: ["violations"], ...options});
  return found.violations.filter(rule => ["serious", "critical"].includes(rule.impact))
    .flatMap(rule => rule.nodes.map(node => `${rule.id}: ${node.target.join(" ")}`));
}"""
# Without those that take long and find nothing that is serious.
MINOR = ["region", "landmark-unique", "heading-order", "aria-allowed-role"]
ALL_RULES = {"rules": {rule: {"enabled": False} for rule in MINOR}}
# What themes and widths change: the other rules find there what they find in the light one on a desk.
LOOKS = {"runOnly": ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "aria-hidden-focus"]}
# The same on all pages.
NAVIGATION = ["#nav-sidebar"]


def admin_pages() -> Iterator[str]:
    """Yield the paths of all pages for a superuser, with the place of a key where an object is shown."""
    yield from (f"/admin/{path}" for path in SINGLE)
    for name in LISTS:
        yield f"/admin/{name}/"
        yield f"/admin/{name}/{{{name}}}/change/"
        if name not in READ_ONLY:
            yield f"/admin/{name}/add/"
    yield "/admin/signers/signer/{signers/signer}/history/"
    # One that other rows protect, and one that they do not.
    yield "/admin/signers/signer/{signers/signer}/delete/"
    yield "/admin/relayers/relayer/{relayers/relayer}/delete/"


def held_lane(relayer: Relayer) -> tuple[Lane, Transaction]:
    """Return a lane with two holds, and its transaction in flight, which has long data."""
    now = timezone.now()
    holds = {reason: {"since": now.isoformat(), "details": "Why."} for reason in ("operator", "lost_commits")}
    nonces = {"first_nonce": 0, "chain_nonce": 1, "next_nonce": 3}
    lane = sending.lane(relayer, holds=holds, held_since=now, waiting="funds", waiting_since=now, **nonces)
    row = sending.transaction(lane, nonce=1, status="submitted", status_reason="Why.", data=b"\1" * 100, sent_at=now)
    sending.attempt(row, gas_price_text="1000000000", outcome="insufficient funds", last_broadcast_at=now)
    return lane, row


@pytest.fixture
def keys(staff: User) -> dict[str, Any]:
    """The keys of an object of each kind, by the place of its list."""
    relayer = factories.relayer(notification=factories.notification(), **TROUBLE)
    assert relayer.notification
    set_paused(relayer, True, "Maintenance")
    set_paused(relayer, False)
    token = issue(name="Wallet", user=staff)[0]
    now = timezone.now()
    PeriodicRun.objects.create(name="heartbeat", slot=1, started_at=now, finished_at=now, seconds=0.02)
    lane, row = held_lane(relayer)
    Transaction.objects.update(requester=token.key, requested_by=str(token), value_text="1")
    uses.count(token.pk, "203.0.113.9", 403, "")
    uses.flush()
    return {
        "relayers/relayer": relayer.pk,
        "node": node_key(networks()[relayer.network].rpc_urls[0]),
        "transactions/lane": lane.pk,
        "transactions/transaction": row.pk,
        "rpc/feetoken": FeeToken.objects.create(network="sepolia", symbol="USDC", address=factories.ADDRESS).pk,
        "signers/signer": relayer.signer.pk,
        "notifications/notification": relayer.notification.pk,
        "notifications/delivery": emit_test(relayer.notification).pk,
        "tokens/accesstoken": token.pk,
        "auth/user": staff.pk,
        "auth/group": Group.objects.create(name="On call").pk,
        "relayer_service/auditentry": AuditEntry.objects.for_row(token).get().pk,
        "relayer_service/periodicrun": "heartbeat",
        "relayer_service/job": Job.objects.create(title="Verify 2 signers", **JOB).pk,
        **alert_keys(relayer),
    }


def alert_keys(relayer: Relayer) -> dict[str, Any]:
    """Return the keys of an incident and of a route, with messages in all states."""
    incident, route = alerts.incident(relayer), alerts.route(url="http://127.0.0.1:65535/")
    alerts.message(route, incident, state="sent", due_at=None, sent_at=timezone.now())
    alerts.message(route, incident, "grew", state="skipped", due_at=None)
    alerts.message(route, incident, "ended", error="Returned HTTP 500.")
    alerts.message(
        alerts.route("mail", "mailto:ops@example.com", channel="email"), incident, state="failed", due_at=None
    )
    return {"incidents/incident": incident.pk, "incidents/alertroute": route.pk}


def findings(page: Page, path: str, status: int = 200, *, in_all_ways: bool = False) -> dict[str, list[str]]:
    """Return what axe finds on a page by theme and width, if anything."""
    # What a relayer's page asks for comes after it.
    response = page.goto(path, wait_until="networkidle" if "/relayers/" in path else "load")
    assert response
    assert (path, response.status) == (path, status)
    return findings_here(page, path, in_all_ways=in_all_ways)


def findings_here(page: Page, name: str, *, in_all_ways: bool = False) -> dict[str, list[str]]:
    """Return what axe finds on the page that is shown, which may be the answer to a form; it fits the screen."""
    page.wait_for_function("!document.querySelector('html[x-cloak]')")
    page.evaluate(AXE.read_text())
    found: dict[str, list[str]] = {}
    if in_all_ways:
        ways = [(LIGHT_DESK, ALL_RULES), (DARK_DESK, LOOKS), (LIGHT_PHONE, ALL_RULES), (DARK_PHONE, LOOKS)]
    else:
        ways = [(LIGHT_DESK, ALL_RULES), (DARK_PHONE, LOOKS)]
    for (theme, size), rules in ways:
        page.set_viewport_size(size)  # type: ignore[arg-type]
        assert (name, page.evaluate("document.documentElement.scrollWidth - innerWidth")) == (name, 0)
        page.evaluate(SET_THEME, theme)
        where = f"{name} {theme} {size['width']}"
        found[where] = page.evaluate(FIND, [rules, [] if in_all_ways else NAVIGATION])
    page.evaluate(SET_THEME, "light")
    page.set_viewport_size(DESK)  # type: ignore[arg-type]
    return {place: rules for place, rules in found.items() if rules}


@needs_axe
def test_axe_finds_nothing_serious_on_any_page(quiet_page: Page, site: str, staff: User, keys: dict[str, Any]) -> None:
    templates = set(TEMPLATES)

    def look_at(path: str, status: int = 200) -> None:
        in_all_ways = path in templates
        templates.discard(path)
        for name, key in keys.items():
            path = path.replace(f"{{{name}}}", str(key))
        found.update(findings(quiet_page, path, status, in_all_ways=in_all_ways))

    found: dict[str, list[str]] = {}
    look_at("/admin/login/")
    look_at("/no-such-page", 404)
    add_session(quiet_page.context, site, staff)
    for path in admin_pages():
        look_at(path)
    look_at("/admin/no-such-page/", 404)
    assert templates == set()
    look_at("/admin/signers/signer/99999/change/", 404)
    add_session(quiet_page.context, site, User.objects.create_user("newcomer", is_staff=True))
    look_at("/admin/signers/signer/", 403)
    assert found == {}


@needs_axe
def test_axe_finds_nothing_serious_on_the_pages_of_channels(quiet_page: Page, site: str, staff: User) -> None:
    """Check the pages of e-mail and Slack, whose fields are not those of webhooks."""
    add_session(quiet_page.context, site, staff)
    found: dict[str, list[str]] = {}
    for kind, url in {"email": "mailto:ops@example.com", "slack": "https://hooks.example.com/T0"}.items():
        channel = Notification.objects.create(identifier=kind, type=kind, url=url, events="worker.*")
        found |= findings(quiet_page, f"/admin/notifications/notification/{channel.pk}/change/")
        found |= findings(quiet_page, f"/admin/notifications/delivery/{emit_test(channel).pk}/change/")
        quiet_page.goto("/admin/notifications/notification/add/")
        quiet_page.locator("[name=type]").select_option(kind)
        found |= findings_here(quiet_page, f"add {kind}")
    assert found == {}


@needs_axe
@pytest.mark.parametrize("path", ["/api/docs", "/api/redoc"])
def test_axe_finds_nothing_serious_in_the_documentation(browser: Browser, site: str, path: str) -> None:
    found: dict[str, list[str]] = {}
    for theme, rules in (("light", ALL_RULES), ("dark", LOOKS)):
        with browser.new_context(base_url=site, color_scheme=theme) as context:  # type: ignore[arg-type]
            context.set_default_timeout(PATIENCE)
            page = context.new_page()
            page.goto(path, wait_until="networkidle")
            if path == "/api/docs":
                page.locator("#operations-Signers-create_signer .opblock-summary-control").click()
                page.locator("#operations-Signers-create_signer .opblock-body").wait_for()
            page.evaluate(AXE.read_text())
            found[theme] = page.evaluate(FIND, [rules, []])
    assert found == {"light": [], "dark": []}


@needs_axe
def test_a_chosen_row_and_the_page_after_signing_out_are_accessible(
    quiet_page: Page, site: str, staff: User, keys: dict[str, Any]
) -> None:
    """Check what only an act of the user shows: the bar of actions, and the page that says goodbye."""
    add_session(quiet_page.context, site, staff)
    quiet_page.goto("/admin/signers/signer/")
    quiet_page.locator("input.action-select").check()
    found = findings_here(quiet_page, "actions")
    quiet_page.goto("/admin/")
    quiet_page.locator("form[action='/admin/logout/']").evaluate("form => form.submit()")
    quiet_page.wait_for_load_state("load")
    quiet_page.get_by_text("Log in again").wait_for()
    found |= findings_here(quiet_page, "signed out")
    assert found == {}


@needs_axe
def test_axe_finds_nothing_serious_in_the_answers_to_forms(
    quiet_page: Page, site: str, staff: User, keys: dict[str, Any]
) -> None:
    """Check what only an act of the user shows: a list's preferences, bulk edit, disabled tokens, a key, a lock."""
    page = quiet_page
    add_session(page.context, site, staff)
    page.goto("/admin/relayers/relayer/?network=sepolia")
    page.get_by_text("Save filter", exact=True).click()
    page.get_by_label("Name", exact=True).fill("A name of up to fifty characters, which is as long")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("link", name="A name of up to fifty").wait_for()
    page.get_by_text("Save filter", exact=True).click()
    page.get_by_text("Columns", exact=True).click()
    found = findings_here(page, "preferences of a list")
    page.goto("/admin/relayers/relayer/")
    page.locator("input.action-select").check()
    page.locator("select[name=action]").select_option("edit_selected")
    page.get_by_role("button", name="Run").click()
    page.get_by_label("Reason").fill("Costs")
    found |= findings_here(page, "bulk edit")
    page.locator("[name=minimum_change]").select_option("set")
    page.locator("[name=minimum]").fill("0.5 ETH")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("Changes 1 relayer.").wait_for()
    found |= findings_here(page, "preview of a bulk edit")
    page.get_by_role("button", name="Change 1 relayer").click()
    page.get_by_role("link", name="View its progress").wait_for()
    job = Job.objects.get(kind="edit_relayers")
    running.run_job.call_local(job.pk)
    page.goto(f"/admin/relayer_service/job/{job.pk}/undo/")
    page.get_by_text("Changes 1 relayer.").wait_for()
    found |= findings_here(page, "undo of a bulk edit")
    page.goto("/admin/tokens/accesstoken/")
    page.locator("input.action-select").check()
    page.locator("select[name=action]").select_option("disable")
    page.get_by_role("button", name="Run").click()
    page.get_by_label("Reason").fill("Leaked")
    found |= findings_here(page, "disabling of tokens")
    page.goto(f"/admin/notifications/notification/{keys['notifications/notification']}/generate_key/")
    page.get_by_role("button", name="Generate key").click()
    page.get_by_text("whsec_").first.wait_for()
    found |= findings_here(page, "generated key")
    page.context.clear_cookies()
    while not page.get_by_role("heading", name="Try again later").is_visible():
        page.goto("/admin/login/")
        page.get_by_label("Username").fill("mallory")
        page.get_by_label("Password").fill("a guess")
        page.get_by_role("button", name="Log in").click()
        page.get_by_text("Try again later").or_(page.get_by_text("Please enter the correct username")).first.wait_for()
    found |= findings_here(page, "locked sign-in")
    assert found == {}


@needs_axe
def test_axe_finds_nothing_serious_in_the_first_steps(quiet_page: Page, site: str, staff: User) -> None:
    add_session(quiet_page.context, site, staff)
    assert findings(quiet_page, "/admin/") == {}
