"""The time line on a relayer's page: what became of it, by whom and why."""

from typing import Any

import pytest
from django.test import Client

from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.audit.recording import changed, created, record
from relayers.models import Relayer
from tests.relayers import factories

pytestmark = pytest.mark.django_db

DISABLED = "The nonce could not be read from any node: timeout."


def happened(relayer: Relayer) -> None:
    with acting_as(ActorKind.COMMAND, "load_config"):
        record([created(relayer)])
    with acting_as(ActorKind.HEALTH_CHECK, "health check"):
        before, after = {"system_disabled": False}, {"system_disabled": True, "balance_is_low": True}
        record([changed(relayer, before | {"balance_is_low": False}, after, DISABLED)])
        record([changed(relayer, {"system_disabled": True}, before)])
    with acting_as(ActorKind.USER, "olga"):
        record([changed(relayer, {"paused": False}, {"paused": True}, "Provider is down")])
        record([changed(relayer, {"paused": True, "name": "A"}, {"paused": False, "name": "B"})])


def time_line(client: Client, relayer: Relayer) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/admin/relayers/relayer/{relayer.pk}/change/").context["time_line"]
    return found


def test_each_change_is_an_entry_with_its_actor_and_reason(admin_client: Client) -> None:
    relayer = factories.relayer()
    happened(relayer)
    lines = time_line(admin_client, relayer)["entries"]
    assert [(line["change"], line["actor"], line["reason"]) for line in lines] == [
        ("Resumed, Changed: name", "user olga", ""),
        ("Paused", "user olga", "Provider is down"),
        ("Enabled again", "health check", ""),
        ("Disabled, Balance low", "health check", DISABLED),
        ("Created", "command load_config", ""),
    ]


def test_a_balance_has_recovered_only_where_a_check_found_that(admin_client: Client) -> None:
    relayer = factories.relayer()
    low = {"balance_is_low": True}
    with acting_as(ActorKind.HEALTH_CHECK, "health check"):
        record([changed(relayer, low, {"balance_is_low": False})])
    with acting_as(ActorKind.USER, "olga"):
        # The balance of another account is unknown.
        record([changed(relayer, low | {"address": "0x1"}, {"balance_is_low": False, "address": "0x2"})])
    assert [line["change"] for line in time_line(admin_client, relayer)["entries"]] == [
        "Changed: address",
        "Balance recovered",
    ]
