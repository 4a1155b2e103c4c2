"""Stand-ins for the event APIs of PagerDuty and Opsgenie: real HTTP servers that check the documented requests.

PagerDuty: Events API v2, https://developer.pagerduty.com/docs/events-api-v2/. Opsgenie: Alert API,
https://docs.opsgenie.com/docs/alert-api.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from tests.notifications.receivers import Handler, answer

ROUTING_KEY = "r" * 32
API_KEY = "0a1b2c3d-0a1b-2c3d-4e5f-0a1b2c3d4e5f"
SEVERITIES = {"critical", "error", "warning", "info"}
CLOSE = re.compile(r"/v2/alerts/([^/?]+)/close\?identifierType=alias")


class PagerDuty:
    """Keeps the incidents that were triggered and not resolved, by deduplication key, and of which it notified."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.open: dict[str, dict[str, Any]] = {}
        self.pages: list[tuple[str, str]] = []

    def __call__(self, handler: Handler) -> None:
        received = handler.server.requests[-1]
        event = json.loads(received.body)
        faults = self.faults(received.path, received.headers, event)
        if not faults:
            self.events.append(event)
            key = event["dedup_key"]
            if event["event_action"] == "trigger":
                if key not in self.open:
                    self.pages.append((key, event["payload"]["severity"]))
                self.open[key] = event["payload"]
            else:
                self.open.pop(key, None)
        body = {"status": "invalid event", "errors": faults} if faults else {"status": "success"}
        answer(400 if faults else 202, json.dumps(body).encode())(handler)

    def faults(self, path: str, headers: dict[str, str], event: dict[str, Any]) -> list[str]:
        payload = event.get("payload", {})
        rules = {
            "path": path == "/v2/enqueue",
            "content type": headers["content-type"] == "application/json",
            "routing_key": event.get("routing_key") == ROUTING_KEY,
            "event_action": event.get("event_action") in {"trigger", "acknowledge", "resolve"},
            "dedup_key": 0 < len(event.get("dedup_key", "")) <= 255,
            "links": all(set(link) == {"href", "text"} for link in event.get("links", [])),
        }
        if event.get("event_action") == "trigger":
            rules |= {
                "summary": 0 < len(payload.get("summary", "")) <= 1024,
                "source": bool(payload.get("source")),
                "severity": payload.get("severity") in SEVERITIES,
                "timestamp": bool(datetime.fromisoformat(payload.get("timestamp", ""))),
            }
        return [name for name, holds in rules.items() if not holds]


class Opsgenie:
    """Keeps the alerts that were created and not closed, by alias, how often each was, and of which it notified."""

    def __init__(self) -> None:
        self.open: dict[str, dict[str, Any]] = {}
        self.pages: list[tuple[str, str]] = []
        self.counts: dict[str, int] = {}

    def __call__(self, handler: Handler) -> None:
        received = handler.server.requests[-1]
        alert = json.loads(received.body)
        faults = self.faults(received.headers, alert)
        if received.headers.get("authorization") != f"GenieKey {API_KEY}":
            answer(401)(handler)
        elif closed := CLOSE.fullmatch(received.path):
            self.open.pop(unquote(closed[1]), None)
            answer(202, b"{}")(handler)
        elif received.path != "/v2/alerts" or faults:
            answer(422, json.dumps({"errors": faults}).encode())(handler)
        else:
            # An open alert with the alias is the same one: it is counted.
            if alert["alias"] not in self.open:
                self.pages.append((alert["alias"], alert["priority"]))
            self.open.setdefault(alert["alias"], alert)
            self.counts[alert["alias"]] = self.counts.get(alert["alias"], 0) + 1
            answer(202, b"{}")(handler)

    def faults(self, headers: dict[str, str], alert: dict[str, Any]) -> list[str]:
        rules = {
            "content type": headers["content-type"] == "application/json",
            "message": 0 < len(alert.get("message", "")) <= 130,
            "alias": 0 < len(alert.get("alias", "")) <= 512,
            "description": len(alert.get("description", "")) <= 15_000,
            "priority": alert.get("priority") in {"P1", "P2", "P3", "P4", "P5"},
            "tags": len(alert.get("tags", [])) <= 20 and all(len(tag) <= 50 for tag in alert.get("tags", [])),
            "source": len(alert.get("source", "")) <= 100,
        }
        return [name for name, holds in rules.items() if not holds]
