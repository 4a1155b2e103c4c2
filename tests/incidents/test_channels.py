"""What each channel sends: the whole request, and whether the documented APIs accept it."""

from __future__ import annotations

import asyncio
import base64
import html
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from incidents import delivery
from incidents.channels import Request
from incidents.messages import Details
from incidents.models import AlertMessage, AlertRoute, Incident
from tests.incidents.event_apis import API_KEY, ROUTING_KEY, Opsgenie, PagerDuty
from tests.incidents.factories import incident, message, route
from tests.incidents.fleet import TITLE, bodies, node_down, node_up, relayers, run
from tests.notifications.clock import NOON, Clock
from tests.notifications.mail_servers import mail_server
from tests.notifications.receivers import receiver

pytestmark = pytest.mark.django_db

KEY = f"whsec_{base64.b64encode(b'k' * 32).decode()}"
WHY = Details("The node returned HTTP 401.", ["sep-1", "sep-2", "sep-3"], 31)
HOSTILE = "<!channel> & <https://evil.example.com|click>\nSubject: other"


def send_begin_and_end(clock: Clock, to: AlertRoute, title: str = TITLE) -> str:
    """Send both messages of an incident; return its ID."""
    made = incident(title=title)
    message(to, made, details=WHY)
    delivery.send_due()
    clock.forward(90)
    made.ended_at = NOON + timedelta(minutes=70)
    message(to, made, "ended", due_at=clock.now)
    delivery.send_due()
    assert list(to_messages(to)) == [("began", "sent", ""), ("ended", "sent", "")]
    return made.identifier


def to_messages(route: AlertRoute) -> list[tuple[str, str, str]]:
    return list(AlertMessage.objects.filter(route=route).order_by("pk").values_list("event", "state", "error"))


def test_pagerduty_is_triggered_and_resolved(clock: Clock) -> None:
    api = PagerDuty()
    with receiver(api) as server:
        url = server.url.replace("/hook", "/v2/enqueue")
        made = send_begin_and_end(clock, route(url=url, channel="pagerduty", secret=ROUTING_KEY, on_call="Ada"))
    page = f"https://relayers.example.com/admin/incidents/incident/{Incident.objects.get(identifier=made).pk}/change/"
    assert api.events == [
        {
            "routing_key": ROUTING_KEY,
            "event_action": "trigger",
            "dedup_key": made,
            "payload": {
                "summary": f"{TITLE}, 31 relayers",
                "source": "hardhat",
                "severity": "critical",
                "timestamp": "2026-01-01T12:00:00.000000Z",
                "component": "Node down",
                "custom_details": {
                    "reason": "The node returned HTTP 401.",
                    "relayers": "sep-1, sep-2, sep-3 and 28 others",
                    "on_call": "Ada",
                    "count": 31,
                },
            },
            "client": "Relayer Management Service",
            "client_url": page,
            "links": [{"href": page, "text": "Incident"}],
        },
        {"routing_key": ROUTING_KEY, "event_action": "resolve", "dedup_key": made},
    ]
    assert api.open == {}


def test_opsgenie_gets_an_alert_and_closes_it(clock: Clock) -> None:
    api = Opsgenie()
    with receiver(api) as server:
        url = server.url.replace("/hook", "/v2/alerts")
        made = send_begin_and_end(clock, route(url=url, channel="opsgenie", secret=API_KEY), "x" * 290)
    assert (api.open, api.counts) == ({}, {made: 1})
    created, closed = bodies(server)
    assert {name: created[name] for name in ("alias", "priority", "tags", "source")} == {
        "alias": made,
        "priority": "P1",
        "tags": ["node_down", "hardhat"],
        "source": "Relayer Management Service",
    }
    reason = "Reason: The node returned HTTP 401.\nRelayers: sep-1, sep-2, sep-3 and 28 others\nKind: Node down\n"
    assert reason in created["description"]
    assert closed["note"] == f"Ended after 1 hour, 10 minutes: {'x' * 290}, peak: 31 relayers"


class Killed(BaseException):
    """The end of a worker."""


@pytest.mark.parametrize(
    ("kind", "path", "secret", "levels"),
    [
        (PagerDuty, "/v2/enqueue", ROUTING_KEY, ["warning", "critical"]),
        (Opsgenie, "/v2/alerts", API_KEY, ["P3", "P1"]),
    ],
)
def test_what_gets_worse_pages_again_and_its_end_closes_both(
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[PagerDuty | Opsgenie],
    path: str,
    secret: str,
    levels: list[str],
) -> None:
    relayers(1)
    with receiver(api := kind()) as server:
        channel = kind.__name__.lower()
        ops = route(url=server.url.replace("/hook", path), channel=channel, secret=secret, kinds=["node_down"])
        node_down(clock, disabled=False)
        run(clock, 130)
        node_down(clock)
        run(clock, 90)
        made = Incident.objects.get(kind="node_down").identifier
        alerts = [made, f"{made}-1"]
        assert api.pages == list(zip(alerts, levels, strict=True))
        post, ends, is_closed = delivery.post, iter(["killed", "refused"]), asyncio.Event()

        async def fail(session: Any, request: Request) -> str:
            """Close the first alert; the second one in vain, until it works."""
            if f"{made}-1" in f"{request.url} {request.body!r}" and (end := next(ends, None)):
                await is_closed.wait()
                if end == "killed":
                    raise Killed
                return "Returned HTTP 503."
            answer = await post(session, request)
            is_closed.set()
            return answer

        monkeypatch.setattr(delivery, "post", fail)
        node_up()
        with pytest.raises(Killed):
            run(clock, 130)
        assert list(api.open) == alerts[1:]
        run(clock, 80)
        assert to_messages(ops)[2:] == [("ended", "pending", "Returned HTTP 503.")]
        run(clock, 120)
    assert (to_messages(ops)[2:], api.open) == ([("ended", "sent", "")], {})
    assert [key for key, _ in api.pages] == alerts


def test_a_wrong_key_of_an_event_api_is_shown_as_what_went_wrong(clock: Clock) -> None:
    with receiver(Opsgenie()) as server:
        ops = route(url=server.url.replace("/hook", "/v2/alerts"), channel="opsgenie", secret="wrong")
        message(ops, incident())
        delivery.send_due()
    assert to_messages(ops) == [("began", "pending", "Returned HTTP 401.")]


def test_a_webhook_is_signed_and_has_an_id(settings: Settings) -> None:
    # By the real clock, which the receiver checks the signature with.
    now = datetime.now(UTC)
    with receiver(key=KEY) as server:
        ops, made = route(url=server.url, secret=KEY), incident(started_at=now)
        sent = message(ops, made, due_at=now, created_at=now)
        delivery.send_due()
    assert server.forged == []
    assert server.webhook_ids == [sent.identifier]
    (body,) = bodies(server)
    assert (body["type"], body["data"]["incident_id"]) == ("incident.began", made.identifier)
    assert set(body) == {"type", "timestamp", "data"}
    assert "created_at" not in body["data"]


def test_slack_and_e_mail_get_a_text_in_which_nothing_is_a_link_or_a_header(clock: Clock, settings: Settings) -> None:
    with receiver() as slack, mail_server() as mail:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mail.port
        made = incident(title=HOSTILE)
        page = f"https://relayers.example.com/admin/incidents/incident/{made.pk}/change/"
        details = Details("<!here>\nBcc: other", ["sep-1"], 2)
        message(route("slack", slack.url, channel="slack"), made, details=details)
        message(route("mail", "mailto:ops@example.com", channel="email"), made, details=details)
        delivery.send_due()
    why = "\nReason: <!here> Bcc: other\nRelayers: sep-1 and 1 other"
    lines = "\nKind: Node down\nSeverity: severe\nSince: 2026-01-01T12:00:00.000000Z\nDetails: "
    escaped = "&lt;!channel&gt; &amp; &lt;https://evil.example.com|click&gt; Subject: other, 31 relayers"
    assert json.loads(slack.requests[0].body) == {"text": f"*{escaped}*{html.escape(why)}{lines}{page}"}
    (letter,) = mail.messages
    assert letter["Subject"] == f"[Relayers] {' '.join(HOSTILE.split())}, 31 relayers"
    assert letter.get_content().splitlines() == f"{why}{lines}{page}".strip().splitlines()


def test_a_test_alert_is_sent_like_any_other(clock: Clock) -> None:
    api = PagerDuty()
    with receiver(api) as server:
        ops = route(url=server.url.replace("/hook", "/v2/enqueue"), channel="pagerduty", secret=ROUTING_KEY)
        sent = delivery.send_test(ops)
        delivery.send_due()
    (event,) = api.events
    assert (event["dedup_key"], event["payload"]["severity"]) == (sent.identifier, "info")
    assert event["payload"]["summary"] == "Test alert of the route ops"
