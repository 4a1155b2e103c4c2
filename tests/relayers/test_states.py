"""Pausing and resuming a relayer, and the events of its webhook."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from django.db import transaction

from notifications.models import Delivery
from relayer_service.audit.actors import ActorKind, acting_as
from relayers.models import Relayer
from tests.notifications.clock import Clock
from tests.relayers import factories
from tests.relayers.factories import set_paused


def bodies() -> list[Any]:
    return [orjson.loads(bytes(delivery.body)) for delivery in Delivery.objects.order_by("pk")]


DATA = {"relayer_id": "relayer-1", "name": "Relayer 1", "network": "sepolia", "network_type": "evm"}


@pytest.mark.django_db
def test_pausing_and_resuming_emit_events_and_change_nothing_else(clock: Clock) -> None:
    relayer = factories.relayer(notification=factories.notification())
    Relayer.objects.update(name="Another name")
    before = Relayer.objects.values().get()
    with acting_as(ActorKind.USER, "anna"):
        assert set_paused(relayer, True, "Maintenance")
    assert not set_paused(relayer, True)
    assert Relayer.objects.values().get() == before | {"paused": True}
    assert set_paused(relayer, False)
    assert Relayer.objects.values().get() == before
    data = DATA | {"name": "Another name"}
    paused = data | {"actor": "user anna", "reason": "Maintenance"}
    resumed = data | {"actor": "unknown", "reason": ""}
    assert bodies() == [
        {"type": "relayer.paused", "timestamp": "2026-01-01T12:00:00.000000Z", "data": paused},
        {"type": "relayer.resumed", "timestamp": "2026-01-01T12:00:00.000000Z", "data": resumed},
    ]


@pytest.mark.django_db
def test_a_pause_that_is_rolled_back_emits_nothing() -> None:
    relayer = factories.relayer(notification=factories.notification())
    with transaction.atomic():
        set_paused(relayer, True)
        transaction.set_rollback(True)
    assert not Relayer.objects.get().paused
    assert bodies() == []
