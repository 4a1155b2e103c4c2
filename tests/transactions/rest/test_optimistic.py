"""Accepting with two statements: what changes between them is obeyed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from relayer_service.database.clock import database_now
from relayers.models import Relayer
from spending.models import SpendingLimit
from tests.api import Api
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.limits import policy
from tests.transactions.rest.requests import PATH, TRANSFER
from transactions.limits.windows import hour_of
from transactions.models import Charge, Lane, Transaction
from transactions.requests import optimistic


def change_after_reading(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    if connection.vendor == "sqlite":
        # It has one writer at a time: a change is made before a request or after it.
        change()
        return
    read = optimistic.read

    def read_and_change(*asked: Any) -> optimistic.Snapshot:
        seen = read(*asked)
        change()
        return seen

    monkeypatch.setattr(optimistic, "read", read_and_change)


@pytest.mark.django_db(transaction=True)
def test_a_change_of_the_relayer_is_obeyed(sender: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes.lane(factories.relayer())
    change_after_reading(monkeypatch, lambda: Relayer.objects.update(paused=True))
    assert sender.post(PATH, TRANSFER).status == 403
    assert not Transaction.objects.exists()


def test_what_others_have_spent_meanwhile_is_counted(sender: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = policy(max_value_per_day="10")
    lanes.lane(factories.relayer(spending=limited))
    limit = SpendingLimit.objects.create(policy=limited, name="value", hours={})
    spent = {str(hour_of(database_now())): "10"}
    change_after_reading(monkeypatch, lambda: SpendingLimit.objects.update(hours=spent))
    assert sender.post(PATH, TRANSFER).status == 403
    limit.refresh_from_db()
    assert (limit.hours, Charge.objects.count(), Transaction.objects.count()) == (spent, 0, 0)


def test_a_lane_that_was_released_meanwhile_is_claimed_again(sender: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    relayer = factories.relayer()
    lane = lanes.lane(relayer)
    change_after_reading(monkeypatch, lambda: Lane.objects.update(relayer=None))
    assert sender.post(PATH, TRANSFER).status == 200
    lane.refresh_from_db()
    assert (lane.relayer, Transaction.objects.get().lane) == (relayer, lane)


@pytest.mark.django_db
def test_what_is_accepted_survives_a_crash_of_the_server(sender: Api) -> None:
    lanes.lane(factories.relayer())
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL synchronous_commit = off")
        assert sender.post(PATH, TRANSFER).status == 200
        if connection.vendor == "postgresql":
            cursor.execute("SHOW synchronous_commit")
            assert cursor.fetchone() == ("on",)
