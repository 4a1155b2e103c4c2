"""What alerts say. Pure functions."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.urls import reverse
from django.utils import timezone
from django.utils.timesince import timesince

from incidents.kinds import Kind
from incidents.models import AlertMessage, AlertRoute, Incident
from relayer_service.database.clock import timestamp

Data = dict[str, Any]


class Details(NamedTuple):
    """What a message says of an incident that its row does not have."""

    # Why, as "Needs attention" shows it.
    reason: str = ""
    # The IDs of the first relayers, and the number of all.
    relayers: Sequence[str] = ()
    relayer_count: int = 0


UNKNOWN = Details()


def message_data(
    incident: Incident, event: str, route: AlertRoute, now: datetime, details: Details = UNKNOWN, title: str = ""
) -> Data:
    """Return what a message about an incident says: the data of webhooks, from which all other texts are made."""
    ended = incident.ended_at
    is_end = event == AlertMessage.Event.ENDED
    number = incident.largest if is_end else incident.number
    title = title or incident.title
    page = reverse("admin:incidents_incident_change", args=[incident.pk])
    return {
        "incident_id": incident.identifier,
        "kind": incident.kind,
        "network": incident.network or None,
        "severity": incident.severity,
        "title": title,
        "count": number,
        "summary": summary(incident, event, title, number),
        "reason": one_line(details.reason) or None,
        "relayers": list(details.relayers),
        "relayers_total": details.relayer_count,
        "started_at": timestamp(incident.started_at),
        "ended_at": timestamp(ended) if ended else None,
        "duration_seconds": int((ended - incident.started_at).total_seconds()) if ended else None,
        "on_call": route.on_call or None,
        "url": f"{settings.PUBLIC_URL}{page}" if settings.PUBLIC_URL else None,
        "created_at": timestamp(now),
    }


def summary(incident: Incident, event: str, title: str, number: int) -> str:
    is_end = event == AlertMessage.Event.ENDED
    text = one_line(f"{title}, {'peak: ' if is_end else ''}{incident.counted(number)}")
    if is_end and incident.ended_at:
        return f"Ended after {duration(incident.started_at, incident.ended_at)}: {text}"
    return f"Worse: {text}" if event == AlertMessage.Event.GREW else text


def duration(start: datetime, end: datetime | None) -> str:
    end = end or timezone.now()
    # Its numbers and units are joined by spaces that do not break.
    return one_line(timesince(start, end, depth=2)) if end - start >= timedelta(minutes=1) else "less than a minute"


def test_data(route: AlertRoute, now: datetime) -> Data:
    return {
        "incident_id": None,
        "kind": Kind.OTHER,
        "network": None,
        "severity": "warning",
        "title": "Test alert",
        "count": 0,
        "summary": f"Test alert of the route {one_line(route.identifier)}",
        "reason": None,
        "relayers": [],
        "relayers_total": 0,
        "started_at": timestamp(now),
        "ended_at": None,
        "duration_seconds": None,
        "on_call": route.on_call or None,
        "url": settings.PUBLIC_URL or None,
        "created_at": timestamp(now),
    }


def one_line(text: str) -> str:
    return " ".join(text.split())


def relayers_text(data: Data) -> str:
    """Return the relayers of a message: "a, b, c and 28 others"."""
    named = data["relayers"]
    text, others = ", ".join(named), data["relayers_total"] - len(named)
    return f"{text} and {others:,} other{'s' if others > 1 else ''}" if others > 0 else text


def plain_text(data: Data) -> str:
    """Return the lines below the summary, for people."""
    lines = {
        "Reason": data.get("reason"),
        "Relayers": relayers_text(data),
        "Kind": Kind(data["kind"]).label,
        "Severity": data["severity"],
        "Since": data["started_at"],
        "Ended": data["ended_at"],
        "On call": data["on_call"],
        "Details": data["url"],
    }
    return "\n".join(f"{name}: {one_line(value)}" for name, value in lines.items() if value)
