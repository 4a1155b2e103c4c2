"""Events as texts that people read, for e-mail and chat."""

import json
from collections.abc import Iterator
from typing import Any

import orjson

from notifications.events import all_events

# Longer values, such as the data of a transaction, are cut.
MAX_VALUE_LENGTH = 300


def subject(body: bytes) -> str:
    """Return the event and the object that it is about, on one line."""
    event = json.loads(body)
    data = event.get("data", {})
    about = next((data[name] for name in ("relayer_id", "notification_id", "name", "symbol") if data.get(name)), "")
    return " ".join(f"{event['type']}: {about}".rstrip(": ").split())


def text(body: bytes) -> str:
    """Return what happened, when, and the data of the event line by line."""
    event = json.loads(body)
    declared = all_events().get(event["type"])
    description = declared.description.replace("`", "") if declared else event["type"]
    lines = [f"{name}: {value}" for name, value in _flat(event.get("data", {})) if value not in (None, "")]
    return "\n".join([description, "", *lines, f"time: {event.get('timestamp', '')}"])


def _flat(data: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", each) for inner, each in _flat(value))
        else:
            shown = value if value is None or isinstance(value, str) else json.dumps(value)
            yield name, None if shown is None else " ".join(shown.split())[:MAX_VALUE_LENGTH]


def slack_message(title: str, text: str) -> bytes:
    """Return the request body of an incoming webhook of Slack, which Mattermost and Discord accept too."""
    plain = f"*{title}*\n{text}"
    # Slack's own escapes: unescaped, an angle bracket begins a link or mentions everybody.
    escaped = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return orjson.dumps({"text": escaped})
