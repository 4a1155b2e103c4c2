"""Pausing and resuming a relayer, and the events of its webhook."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
import pytest
from django.db import transaction

from notifications.models import Delivery
from relayer_service.audit.actors import ActorKind, acting_as
from relayers.models import Relayer
from tests.concurrency import in_threads
from tests.notifications.clock import Clock
from tests.relayers import factories
from tests.relayers.factories import set_paused


def bodies() -> list[Any]:
    return [orjson.loads(bytes(delivery.body)) for delivery in Delivery.objects.order_by("pk")]


DATA = {"relayer_id": "relayer-1", "name": "Relayer 1", "network": "sepolia", "network_type": "evm"}


@pytest.mark.django_db
def test_pausing_and_resuming_emit_events(clock: Clock) -> None:
    relayer = factories.relayer(notification=factories.notification())
    with acting_as(ActorKind.USER, "anna"):
        assert set_paused(relayer, True, "Maintenance")
    assert Relayer.objects.get().paused
    assert set_paused(relayer, False)
    paused = DATA | {"actor": "user anna", "reason": "Maintenance"}
    resumed = DATA | {"actor": "unknown", "reason": ""}
    assert not Relayer.objects.get().paused
    assert bodies() == [
        {"type": "relayer.paused", "timestamp": "2026-01-01T12:00:00.000000Z", "data": paused},
        {"type": "relayer.resumed", "timestamp": "2026-01-01T12:00:00.000000Z", "data": resumed},
    ]


@pytest.mark.django_db
def test_pausing_a_paused_relayer_emits_nothing() -> None:
    relayer = factories.relayer(notification=factories.notification(), paused=True)
    assert not set_paused(relayer, True)
    assert bodies() == []


@pytest.mark.django_db
def test_a_relayer_without_a_notification_is_paused_all_the_same() -> None:
    assert set_paused(factories.relayer(), True)
    assert Relayer.objects.get().paused
    assert bodies() == []


@pytest.mark.django_db
def test_a_pause_that_is_rolled_back_emits_nothing() -> None:
    relayer = factories.relayer(notification=factories.notification())
    with transaction.atomic():
        set_paused(relayer, True)
        transaction.set_rollback(True)
    assert not Relayer.objects.get().paused
    assert bodies() == []


@pytest.mark.django_db
def test_pausing_changes_nothing_else() -> None:
    relayer = factories.relayer()
    Relayer.objects.update(name="Another name")
    before = Relayer.objects.values().get()
    set_paused(relayer, True)
    assert Relayer.objects.values().get() == before | {"paused": True}


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_pauses_emit_one_event() -> None:
    factories.relayer(notification=factories.notification())
    relayers = [Relayer.objects.get() for _ in range(4)]
    results = in_threads(*[partial(set_paused, relayer, True) for relayer in relayers])
    assert sorted(results) == [False, False, False, True]
    assert [body["type"] for body in bodies()] == ["relayer.paused"]
