"""The HTTP requests of a message, by channel. Pure functions.

PagerDuty: Events API v2. Opsgenie: Alert API. Neither notifies again about an open alert that has become severe. So an
incident that gets worse is one more alert, and its end closes all; there, what is not open is ignored.
"""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote

import orjson

from incidents.kinds import Kind
from incidents.messages import plain_text, relayers_text
from incidents.models import AlertMessage, AlertRoute
from notifications.delivery import signing, texts

SOURCE = "Relayer Management Service"
# What the event APIs accept.
MAX_PAGERDUTY_SUMMARY, MAX_OPSGENIE_MESSAGE = 1024, 130
PAGERDUTY_SEVERITY = {"severe": "critical", "warning": "warning"}
OPSGENIE_PRIORITY = {"severe": "P1", "warning": "P3"}
ENDED, TEST = AlertMessage.Event.ENDED, AlertMessage.Event.TEST


class Request(NamedTuple):
    url: str
    body: bytes
    # Not shown: they may have a key.
    headers: dict[str, str]


def alert_ids(message: AlertMessage) -> list[str]:
    """Return what receivers recognize the alerts by that a message is about; a test is its own."""
    incident = message.data["incident_id"] or message.identifier
    ids = [incident, *(f"{incident}-{number}" for number in range(1, message.magnitude + 1))]
    return ids if message.event == ENDED else ids[-1:]


def webhook(route: AlertRoute, message: AlertMessage, now: datetime) -> list[Request]:
    created_at = message.data["created_at"]
    data = {name: value for name, value in message.data.items() if name != "created_at"}
    body = orjson.dumps({"type": f"incident.{message.event}", "timestamp": created_at, "data": data})
    return [Request(route.url, body, signing.headers(message.identifier, now, body, route.secret))]


def slack(route: AlertRoute, message: AlertMessage, now: datetime) -> list[Request]:
    return [Request(route.url, texts.slack_message(message.data["summary"], plain_text(message.data)), {})]


def pagerduty(route: AlertRoute, message: AlertMessage, now: datetime) -> list[Request]:
    data = message.data
    event = {"routing_key": route.secret, "event_action": "resolve" if message.event == ENDED else "trigger"}
    if message.event != ENDED:
        event["payload"] = {
            "summary": data["summary"][:MAX_PAGERDUTY_SUMMARY],
            "source": data["network"] or SOURCE,
            "severity": "info" if message.event == TEST else PAGERDUTY_SEVERITY[data["severity"]],
            "timestamp": data["started_at"],
            "component": Kind(data["kind"]).label,
            "custom_details": {
                "reason": data.get("reason"),
                "relayers": relayers_text(data) or None,
                "on_call": data["on_call"],
                "count": data["count"],
            },
        }
        event["client"] = SOURCE
        if data["url"]:
            event["client_url"] = data["url"]
            event["links"] = [{"href": data["url"], "text": "Incident"}]
    return [Request(route.url, orjson.dumps({**event, "dedup_key": key}), {}) for key in alert_ids(message)]


def opsgenie(route: AlertRoute, message: AlertMessage, now: datetime) -> list[Request]:
    headers = {"Authorization": f"GenieKey {route.secret}"}
    data, aliases = message.data, alert_ids(message)
    if message.event == ENDED:
        body, base = orjson.dumps({"source": SOURCE, "note": data["summary"]}), route.url.rstrip("/")
        return [
            Request(f"{base}/{quote(alias, safe='')}/close?identifierType=alias", body, headers) for alias in aliases
        ]
    alert = {
        "message": data["summary"][:MAX_OPSGENIE_MESSAGE],
        "alias": aliases[0],
        "description": f"{data['summary']}\n{plain_text(data)}",
        "priority": "P5" if message.event == TEST else OPSGENIE_PRIORITY[data["severity"]],
        "tags": [tag for tag in (data["kind"], data["network"]) if tag],
        "source": SOURCE,
    }
    return [Request(route.url, orjson.dumps(alert), headers)]


REQUESTS: dict[str, Callable[[AlertRoute, AlertMessage, datetime], list[Request]]] = {
    AlertRoute.Channel.WEBHOOK: webhook,
    AlertRoute.Channel.SLACK: slack,
    AlertRoute.Channel.PAGERDUTY: pagerduty,
    AlertRoute.Channel.OPSGENIE: opsgenie,
}
