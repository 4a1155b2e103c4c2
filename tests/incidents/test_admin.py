"""The pages of incidents and alert routes."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from chain.nodes.observers import node_key
from incidents import delivery, watching
from incidents.console.guides import GUIDES, blocks
from incidents.models import AlertMessage, AlertRoute, Incident
from relayer_service.models import AuditEntry
from relayer_service.observability.call_counts import NODE, CallCount
from relayers.models import RelayerHealth
from relayers.models.tags import save_tags
from relayers.nodes import FAILED, slot_of
from tests.incidents.factories import incident, message, route
from tests.incidents.fleet import node_down, relayers
from tests.notifications.admin_pages import rows, staff_who_may, told
from tests.notifications.clock import NOON, Clock
from tests.notifications.receivers import receiver
from tests.relayer_service.admin.overview_pages import part, text
from tests.relayers import factories

pytestmark = pytest.mark.django_db

INCIDENTS, ROUTES = "/admin/incidents/incident/", "/admin/incidents/alertroute/"
FORM = {
    "identifier": "ops",
    "channel": "webhook",
    "url": "https://hooks.example.com/s3cr3t",
    "addresses": "",
    "new_secret": "",
    "on_call": "Ada",
    "time_zone": "UTC",
    "quiet_from": "",
    "quiet_until": "",
    "enabled": "on",
}


def add(client: Client, **changes: Any) -> Any:
    return client.post(f"{ROUTES}add/", {**FORM, **changes})


def errors(page: Any) -> dict[str, Any]:
    return dict(page.context["adminform"].form.errors)


def test_the_name_of_a_route_is_chosen_by_people(admin_client: Client) -> None:
    assert admin_client.get(f"{ROUTES}add/").context["adminform"].form["identifier"].value() == ""


def test_a_route_is_added_with_an_audit_entry_that_has_no_secret(admin_client: Client) -> None:
    save_tags({factories.relayer(network="mainnet").pk: ["eu"]})
    kinds = {"chosen_kinds": ["stuck", "node_down"], "chosen_networks": ["mainnet"], "chosen_tags": ["eu"]}
    hours = {"quiet_from": "22:00", "quiet_until": "07:00", "time_zone": "Europe/Berlin"}
    response = add(admin_client, new_secret="s3cr3t-key", **kinds, **hours)
    made = AlertRoute.objects.get()
    # Its page has the test.
    assert (response.status_code, response.url) == (302, f"{ROUTES}{made.pk}/change/")
    assert (made.kinds, made.networks, made.tags) == (["stuck", "node_down"], ["mainnet"], ["eu"])
    assert made.secret == "s3cr3t-key"
    entry = AuditEntry.objects.get(object_type="alert route")
    assert entry.changes == {
        "channel": [None, "webhook"],
        "url": [None, "https://hooks.example.com/***"],
        "secret": "set",
        "kinds": [None, ["stuck", "node_down"]],
        "networks": [None, ["mainnet"]],
        "tags": [None, ["eu"]],
        "severe_only": [None, False],
        "quiet_hours": [None, "22:00 to 07:00 Europe/Berlin"],
        "severe_passes": [None, False],
        "on_call": [None, "Ada"],
        "enabled": [None, True],
    }


def test_a_key_is_not_sent_to_another_url_unless_it_is_entered_again(admin_client: Client) -> None:
    add(admin_client, channel="pagerduty", url="", new_secret="s3cr3t-key")
    page = f"{ROUTES}{AlertRoute.objects.get().pk}/change/"
    moved = {**FORM, "url": "https://collector.example.com/"}
    assert errors(admin_client.post(page, moved)) == {"new_secret": ["to change the URL, enter the key again"]}
    assert admin_client.post(page, moved | {"new_secret": "other"}).status_code == 302


@pytest.mark.parametrize(
    ("changes", "field", "error"),
    [
        ({"url": ""}, "url", "This field is required."),
        ({"url": "https://127.1/"}, "url", "an absolute http or https URL is required"),
        ({"url": "mailto:a@example.com"}, "url", "a URL is required"),
        ({"channel": "email", "addresses": "nobody"}, "addresses", "Enter a valid email address."),
        ({"channel": "pagerduty", "url": ""}, "new_secret", "PagerDuty needs a key"),
        ({"channel": "opsgenie", "url": ""}, "new_secret", "Opsgenie needs a key"),
        ({"new_secret": "whsec_!"}, "new_secret", "The signing key starts with whsec_ but is not valid base64"),
        ({"quiet_from": "22:00"}, "quiet_until", "enter both times of the quiet hours, or none"),
        ({"quiet_from": "07:00", "quiet_until": "07:00"}, "quiet_until", "quiet hours must not begin and end"),
        ({"time_zone": "Mars/Olympus"}, "time_zone", "Select a valid choice."),
    ],
)
def test_a_route_that_cannot_work_is_refused(admin_client: Client, changes: Any, field: str, error: str) -> None:
    found = errors(add(admin_client, **changes))
    assert error in " ".join(found[field])
    assert not AlertRoute.objects.exists()


@pytest.mark.parametrize(
    ("channel", "url"),
    [
        ("pagerduty", "https://events.pagerduty.com/v2/enqueue"),
        ("opsgenie", "https://api.opsgenie.com/v2/alerts"),
    ],
)
def test_an_event_api_needs_no_url(admin_client: Client, channel: str, url: str) -> None:
    assert add(admin_client, channel=channel, url="", new_secret="key").status_code == 302
    assert AlertRoute.objects.get().url == url


def test_a_change_keeps_the_key_and_what_the_form_does_not_have(admin_client: Client) -> None:
    made = route(url=FORM["url"], secret="s3cr3t-key", kinds=["stuck"])
    page = admin_client.get(f"{ROUTES}{made.pk}/change/")
    assert "s3cr3t-key" not in page.content.decode()
    form = {**FORM, "on_call": "Ben", "chosen_kinds": "stuck", "initial-chosen_kinds": "stuck"}
    assert admin_client.post(f"{ROUTES}{made.pk}/change/", form).status_code == 302
    made.refresh_from_db()
    assert (made.on_call, made.secret, made.kinds, made.channel) == ("Ben", "s3cr3t-key", ["stuck"], "webhook")


@pytest.mark.parametrize(
    ("channel", "url", "shown"),
    [
        ("email", "mailto:ops@example.com", ["addresses"]),
        ("slack", "https://hooks.example.com/", ["url"]),
        ("webhook", "https://hooks.example.com/", ["url", "new_secret"]),
        ("opsgenie", "https://api.opsgenie.com/v2/alerts", ["url", "new_secret"]),
    ],
)
def test_a_route_shows_the_fields_of_its_channel(
    admin_client: Client, channel: str, url: str, shown: list[str]
) -> None:
    made = route(url=url, channel=channel, secret="key")
    page = admin_client.get(f"{ROUTES}{made.pk}/change/").content.decode()
    fields = ["url", "addresses", "new_secret"]
    assert [name for name in fields if re.search(f'<input[^>]* name="{name}"', page)] == shown


def test_a_test_alert_is_queued_and_recorded(admin_client: Client) -> None:
    made = route()
    page = admin_client.post(f"{ROUTES}{made.pk}/send_test/", follow=True)
    assert told(page) == ["A test alert to ops is sent within seconds. Its outcome appears below."]
    assert "Test alert to ops: not sent yet To be sent now." in text(page.content.decode())
    AlertMessage.objects.update(lease=uuid4(), due_at=NOON + timedelta(days=1_000))
    assert "to ops: sending Test alert of" in text(admin_client.get(page.request["PATH_INFO"]).content.decode())
    assert "Test alert of the route ops" in page.content.decode()
    assert list(AlertMessage.objects.values_list("event", "state")) == [("test", "pending")]
    assert AuditEntry.objects.get(object_type="alert route").reason == "Sent a test alert."
    AlertRoute.objects.update(enabled=False)
    assert told(admin_client.post(f"{ROUTES}{made.pk}/send_test/", follow=True)) == [
        "ops is disabled. Enable it first."
    ]


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("https://relayers.example.com", ""),
        ("http://localhost:8000", "Links in alerts lead to http://localhost:8000. Set PUBLIC_URL"),
        ("", "Alerts have no links. Set PUBLIC_URL"),
    ],
)
def test_a_route_names_the_setting_of_links_that_others_cannot_open(
    admin_client: Client, settings: Any, url: str, hint: str
) -> None:
    settings.PUBLIC_URL = url
    page = admin_client.get(f"{ROUTES}{route().pk}/change/").content.decode()
    assert ("PUBLIC_URL" in page, hint in page) == (bool(hint), True)


def test_a_route_is_not_ok_before_something_arrived(admin_client: Client, clock: Clock) -> None:
    intro = "A route sends alerts about the problems of"
    assert intro in admin_client.get(ROUTES).content.decode()
    with receiver() as server:
        closed = server.url
    made = route(url=closed)
    page = f"{ROUTES}{made.pk}/"

    def states() -> list[str]:
        return [rows(admin_client.get(ROUTES))[0][-1], text(admin_client.get(f"{page}alerts/").content.decode())]

    assert states() == [
        "not tested",
        "State: not tested Nothing was sent yet. A test alert shows whether this route works.",
    ]
    shown = admin_client.post(f"{page}send_test/", follow=True).content.decode()
    # The page shows this until the test has its outcome.
    assert f'data-progress-url="{page}alerts/"' in shown
    delivery.claim(made.pk)
    waiting = admin_client.get(f"{page}alerts/").content.decode()
    assert ("data-over" in waiting, text(waiting).startswith("State: not tested ")) == (False, True)
    AlertMessage.objects.update(due_at=NOON, lease=None)
    delivery.send_due()
    over = admin_client.get(f"{page}alerts/").content.decode()
    assert ("data-over" in over, text(over).startswith("State: failing ")) == (True, True)
    assert "Test alert to ops: failed Connection failed" in text(over)
    assert states()[0] == "failing"
    assert intro not in admin_client.get(ROUTES).content.decode()


def test_an_incident_is_acknowledged_on_its_page_which_says_why_and_where_to_act(
    admin_client: Client, client: Client, clock: Clock
) -> None:
    relayers(2)
    node_down(clock)
    RelayerHealth.objects.update(disabled_reason_details="No node answers: the node timed out.")
    watching.watch()
    page = f"{INCIDENTS}{Incident.objects.get(kind='node_down').pk}/change/"
    shown = admin_client.get(page).content.decode()
    assert "No node answers: the node timed out." in shown
    for place in ("relayer/nodes/", "relayer/?network=hardhat", "lane/?network=hardhat"):
        assert f'{place}">' in shown
    fields = dict(re.findall(r'<input type="hidden" name="(cause|number|severe|next)" value="([^"]*)">', shown))
    response = admin_client.post("/admin/attention/acknowledge/", fields | {"note": "On it"})
    assert response["Location"] == page
    markup = admin_client.get(page).content.decode()
    known = text(markup)
    row = markup.partition('aria-label="Cause"')[2].partition("<li>")[2].partition("</li>")[0]
    # Title, reason with who knows, start and button: the columns of the grid.
    assert re.findall(r"^<(strong|span|time)|^ +<(form)", row, re.MULTILINE) == [
        *[(name, "") for name in ("strong", "span", "time")],
        ("", "form"),
    ]
    # The cause is still there to read.
    assert ("admin, 2026-01-01 12:00 UTC: On it" in known, "the node timed out." in known) == (True, True)
    elsewhere = {**fields, "next": "https://example.com/"}
    assert admin_client.post("/admin/attention/undo/", elsewhere)["Location"] == "/admin/"
    viewer = text(staff_who_may(client, "view_incident").get(page).content.decode())
    assert "Acknowledge:" not in viewer
    assert "Networks and nodes Runbook" not in viewer


def test_an_incident_about_nodes_names_those_that_fail_without_their_keys(
    admin_client: Client, client: Client
) -> None:
    urls = [f"https://{name}.example.com/v2/SECRET?key=SECRET" for name in ("dead", "fine", "unused")]
    factories.relayer(network="hardhat", rpc_urls=[{"url": url, "weight": 1} for url in urls])
    now = timezone.now()
    counted = {"kind": NODE, "start": slot_of(now), "calls": 1, "last_at": now}
    CallCount.objects.create(subject=node_key(urls[0]), outcome=FAILED, last_fault="connection failed", **counted)
    CallCount.objects.create(subject=node_key(urls[1]), outcome="ok", **counted)
    made = incident()
    page = f"{INCIDENTS}{made.pk}/change/"
    shown = admin_client.get(page).content.decode()
    fault = "https://dead.example.com/*** failing Last error: connection failed; no answer in the last hour"
    assert f"Nodes that do not work {fault} What to do" in text(shown)
    assert [name for name in ("fine.example", "unused.example", "SECRET") if name in shown] == []
    others = {"a viewer": staff_who_may(client, "view_incident").get(page).content.decode()}
    Incident.objects.update(kind="stuck")
    others["another kind"] = admin_client.get(page).content.decode()
    Incident.objects.update(kind="node_down", ended_at=now)
    others["an end"] = admin_client.get(page).content.decode()
    assert [name for name, page in others.items() if "dead.example.com" in page] == []


@pytest.mark.parametrize(("kind", "section"), [(kind, section) for kind, (section, _) in GUIDES.items() if section])
def test_an_incident_shows_the_steps_of_its_runbook(admin_client: Client, kind: str, section: str) -> None:
    made = incident(kind=kind)
    page = admin_client.get(f"{INCIDENTS}{made.pk}/change/").content.decode()
    shown = re.search(r'<details class="runbook" open>(.*?)</details>', page, re.DOTALL)
    assert shown
    assert text(shown[1]).startswith(f"Runbook: {section} Signs: ")
    assert re.search(r'<ol start="1"><li>.+</li><li>.+</li>', shown[1])
    assert [mark for mark in ("**", "`", "](", "| ", "<h2") if mark in shown[1]] == []


def test_a_runbook_is_shown_as_text_in_paragraphs_lists_and_tables() -> None:
    lists = "1. Run `a <b>`\n2. **Wait**,\n   then"
    table = "| a |\n|---|\n| `c` |\n\n![d](e.png)\n"
    *found, last = blocks(f"<b> [it](x.md#y) [here](#z)\n\n{lists}\n\n{table}")
    assert found == [
        {"text": f'&lt;b&gt; it <a class="underline" href="{INCIDENTS}runbooks/#z">here</a>'},
        {"start": "1", "steps": ["Run <code>a &lt;b&gt;</code>", "<strong>Wait</strong>, then"]},
    ]
    assert (last["table"].headers, last["table"].rows) == (["a"], [["<code>c</code>"]])


def test_runbooks_are_on_one_page_where_the_links_of_each_lead(admin_client: Client, client: Client) -> None:
    page = admin_client.get(f"{INCIDENTS}runbooks/").content.decode()
    links = set(re.findall(r'href="(?:/admin/incidents/incident/runbooks/)?#([a-z-]+)"', page))
    assert {"a-token-leaked", "transactions-fail"} <= links
    assert links == set(re.findall(r'<section [^>]*id="([^"]+)"', page))
    assert [mark for mark in ("**", "](", "| ---") if mark in page] == []
    assert f'href="{INCIDENTS}runbooks/"' in admin_client.get(INCIDENTS).content.decode()
    assert staff_who_may(client, "view_relayer").get(f"{INCIDENTS}runbooks/").status_code == 403


def test_viewers_see_routes_without_secrets(client: Client) -> None:
    made = route(url="https://hooks.example.com/s3cr3t", secret="s3cr3t")
    staff = staff_who_may(client, "view_alertroute")
    for path in (ROUTES, f"{ROUTES}{made.pk}/change/"):
        page = staff.get(path).content.decode()
        assert "https://hooks.example.com/***" in page
        assert "s3cr3t" not in page


def test_an_incident_shows_its_extent_who_knew_and_what_was_sent(admin_client: Client, clock: Clock) -> None:
    relayer = factories.relayer(name="<b>Treasury</b>")
    made = incident(relayer, title="<i>sepolia</i>: no node answers", ended_at=NOON + timedelta(hours=2))
    made.acknowledged_by, made.acknowledged_at, made.note = "ada", NOON, "On it"
    made.save()
    ops = route()
    message(ops, made, state="sent", due_at=None, sent_at=NOON)
    message(ops, made, "grew", error="Returned HTTP 500.")
    page = admin_client.get(f"{INCIDENTS}{made.pk}/change/").content.decode()
    shown = text(page)
    assert "<i>" not in page
    assert "<b>Treasury" not in page
    for each in (
        "Peak 31 relayers",
        "State ended Severity Severe",
        "Duration 2 hours",
        "Acknowledged by ada, 2026-01-01 12:00 UTC: On it",
        "Runbook: A node is down Signs: ",
        "<b>Treasury</b>",
        "Start alert to ops: sent 2026-01-01 12:00:00 UTC",
        "Escalation alert to ops: not sent yet Returned HTTP 500. Next attempt now.",
    ):
        assert each in shown


def test_the_list_of_incidents_has_their_severity_in_words(admin_client: Client, clock: Clock) -> None:
    incident()
    incident(key="b", severe=False)
    assert [row[1] for row in rows(admin_client.get(INCIDENTS))] == ["open Warning", "open Severe"]


def test_an_incident_without_alerts_says_whether_there_is_a_route(admin_client: Client, client: Client) -> None:
    page = f"{INCIDENTS}{incident().pk}/change/"
    shown = admin_client.get(page).content.decode()
    assert "There is no alert route. Add alert route" in text(shown)
    assert f'href="{ROUTES}add/"' in shown
    assert "Add alert route" not in staff_who_may(client, "view_incident").get(page).content.decode()
    route()
    assert "None: no route matched it" in admin_client.get(page).content.decode()


def test_incidents_are_filtered_by_state_kind_network_and_relayer(admin_client: Client, clock: Clock) -> None:
    first, second = factories.relayer(), factories.relayer(identifier="relayer-2", address=f"0x{'1' * 40}")
    incident(first, title="first")
    incident(first, second, title="second", key="b", ended_at=NOON, network="sepolia", kind="stuck")
    queries = {
        "": ["second", "first"],
        "state=open": ["first"],
        "state=ended": ["second"],
        "kind=stuck": ["second"],
        "network=hardhat": ["first"],
        f"relayer={second.identifier}": ["second"],
        f"relayer={first.identifier}&state=open": ["first"],
        "relayer=unknown": [],
    }
    for query, titles in queries.items():
        assert [row[0] for row in rows(admin_client.get(f"{INCIDENTS}?{query}"))] == titles, query


def test_a_relayer_shows_its_newest_incidents(admin_client: Client, client: Client, clock: Clock) -> None:
    relayer = factories.relayer()
    for number in range(7):
        incident(relayer, title=f"number {number}", key=str(number))
    page = f"/admin/relayers/relayer/{relayer.pk}/change/"
    shown = admin_client.get(page).content.decode()
    assert [f"number {number}" in shown for number in range(7)] == [False, False, *[True] * 5]
    assert f"{INCIDENTS}?relayer=relayer-1" in shown
    assert "number 6" not in staff_who_may(client, "view_relayer").get(page).content.decode()


def test_a_problem_on_the_overview_links_to_its_incident(admin_client: Client, clock: Clock) -> None:
    relayers(1)
    node_down(clock)
    watching.watch()
    (made,) = Incident.objects.filter(kind="node_down")
    assert f"{INCIDENTS}{made.pk}/change/" in part(admin_client, "Needs attention")


def test_a_route_whose_alerts_fail_needs_attention(admin_client: Client, clock: Clock) -> None:
    ops = route()
    message(ops, incident(), error="Returned HTTP 500.")
    assert "Alerts cannot be sent 1 route" in text(part(admin_client, "Needs attention"))
    AlertRoute.objects.update(enabled=False)
    assert "Alerts cannot be sent" not in text(part(admin_client, "Needs attention"))
