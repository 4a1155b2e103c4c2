"""Routes and incidents with fixed values, in the database."""

from __future__ import annotations

from typing import Any

from incidents.messages import Details, message_data
from incidents.models import AlertMessage, AlertRoute, Incident, IncidentRelayer
from relayers.models import Relayer
from tests.notifications.clock import NOON

URL = "https://hooks.example.com/ops"


def route(identifier: str = "ops", url: str = URL, **changes: Any) -> AlertRoute:
    secret = changes.pop("secret", None)
    created = AlertRoute(identifier=identifier, url=url, **{"channel": "webhook", **changes})
    created.secret = secret
    created.full_clean()
    created.save()
    return created


def incident(*relayers: Relayer, **changes: Any) -> Incident:
    values = {
        "key": "node_down:hardhat",
        "kind": "node_down",
        "network": "hardhat",
        "title": "hardhat: no node answers",
        "url": "/admin/relayers/relayer/?network=hardhat",
        "severe": True,
        "unit": "relayer",
        "number": 31,
        "largest": 31,
        "announced": 31,
        "started_at": NOON,
        "opened_at": NOON,
    }
    created = Incident.objects.create(**values | changes)
    for relayer in relayers:
        IncidentRelayer.objects.create(incident=created, relayer=relayer)
    return created


def message(route: AlertRoute, incident: Incident, event: str = "began", **changes: Any) -> AlertMessage:
    values = {"route_name": route.identifier, "key": incident.key, "due_at": NOON, "created_at": NOON}
    data = message_data(incident, event, route, NOON, changes.pop("details", Details()))
    return AlertMessage.objects.create(route=route, incident=incident, event=event, data=data, **values | changes)
