"""The time line on a relayer's page: what became of it, by whom and why."""

from typing import Any

import pytest
from django.test import Client

from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.audit.recording import changed, created, record
from tests.relayers import factories

pytestmark = pytest.mark.django_db

DISABLED = "The nonce could not be read from any node: timeout."


def test_each_change_is_an_entry_with_its_actor_and_reason(admin_client: Client) -> None:
    relayer = factories.relayer()
    with acting_as(ActorKind.COMMAND, "load_config"):
        record([created(relayer)])
    low = {"balance_is_low": True}
    with acting_as(ActorKind.HEALTH_CHECK, "health check"):
        before, after = {"system_disabled": False}, {"system_disabled": True, **low}
        record([changed(relayer, before | {"balance_is_low": False}, after, DISABLED)])
        record([changed(relayer, {"system_disabled": True}, before)])
        record([changed(relayer, low, {"balance_is_low": False})])
    with acting_as(ActorKind.USER, "olga"):
        record([changed(relayer, {"paused": False}, {"paused": True}, "Provider is down")])
        record([changed(relayer, {"paused": True, "name": "A"}, {"paused": False, "name": "B"})])
        # The balance of another account is unknown: only a check finds that one has recovered.
        record([changed(relayer, low | {"address": "0x1"}, {"balance_is_low": False, "address": "0x2"})])
    page: Any = admin_client.get(f"/admin/relayers/relayer/{relayer.pk}/change/")
    lines = page.context["time_line"]["entries"]
    assert [(line["change"], line["actor"], line["reason"]) for line in lines] == [
        ("Changed: address", "user olga", ""),
        ("Resumed, Changed: name", "user olga", ""),
        ("Paused", "user olga", "Provider is down"),
        ("Balance recovered", "health check", ""),
        ("Enabled again", "health check", ""),
        ("Disabled, Balance low", "health check", DISABLED),
        ("Created", "command load_config", ""),
    ]
