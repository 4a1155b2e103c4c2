"""Accepting beside changes of the relayer, with two statements or more."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import pytest
from django.db import connection, connections, transaction

from relayer_service.database.clock import database_now
from relayers.models import Relayer
from spending.models import SpendingLimit
from tests.api import Answer, Api
from tests.concurrency import wait_until, waits_for_a_lock, waits_for_this_connection
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.limits import policy
from tests.transactions.rest.requests import PATH, TRANSFER
from transactions.limits.windows import hour_of
from transactions.models import Charge, Lane, Transaction
from transactions.requests import unlocked_accept
from transactions.requests.lane_locks import claim_lane


@pytest.mark.postgresql
@pytest.mark.django_db
def test_what_is_accepted_survives_a_crash_of_the_server(sender: Api) -> None:
    relayer = factories.relayer()
    accepts: list[Callable[[], Any]] = [
        lambda: claim_lane(relayer, relayer.expected_chain_id or 0, relayer.address),
        lambda: sender.post(PATH, TRANSFER),
    ]
    for accept in accepts:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit = off")
            accept()
            cursor.execute("SHOW synchronous_commit")
            assert cursor.fetchone() == ("on",)
    assert (Lane.objects.get().relayer, Transaction.objects.count()) == (relayer, 1)


@pytest.mark.parametrize(
    ("change", "status", "body"),
    [
        ({"paused": True}, 403, bodies.failure("Relayer paused")),
        ({"address": ""}, 409, bodies.failure("Relayer has no address: its signer has not provided one yet")),
        (
            {"policies": {"gas_limit_estimation": False}},
            400,
            bodies.bad_request(
                "gas_limit: required: the relayer's policy gas_limit_estimation is false", code="not_allowed"
            ),
        ),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_a_request_that_waits_for_a_change_of_the_relayer_obeys_it(
    sender: Api, change: dict[str, Any], status: int, body: dict[str, Any]
) -> None:
    lane = lanes.lane(factories.relayer())
    answers: list[Answer] = []

    def send() -> None:
        try:
            answers.append(sender.post(PATH, TRANSFER))
        finally:
            connections.close_all()

    thread = Thread(target=send)
    with transaction.atomic():
        Lane.objects.select_for_update().get(pk=lane.pk)
        thread.start()
        wait_until(waits_for_a_lock)
        Relayer.objects.update(**change)
    thread.join()
    assert [(answer.status, answer.body) for answer in answers] == [(status, body)]
    assert not Transaction.objects.exists()


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_a_request_on_a_lane_that_was_taken_away_does_not_keep_it_locked(sender: Api) -> None:
    """It goes on to lock the relayer, whose lock another one may have that waits for the lane."""
    relayer = factories.relayer()
    lane, answers, taken, seen = lanes.lane(relayer), list[Answer](), Event(), Event()

    def take_away() -> None:
        with transaction.atomic():
            Lane.objects.update(relayer=None)
            taken.set()
            seen.wait()
        connections.close_all()

    def send() -> None:
        answers.append(sender.post(PATH, TRANSFER))
        connections.close_all()

    taking, sending = Thread(target=take_away, daemon=True), Thread(target=send, daemon=True)
    with transaction.atomic():
        Relayer.objects.select_for_update(no_key=True).get(pk=relayer.pk)
        taking.start()
        taken.wait()
        sending.start()
        wait_until(waits_for_a_lock)
        seen.set()
        taking.join()
        # It may still be shown as waiting for the lane; what this connection has is the relayer.
        wait_until(waits_for_this_connection)
        Lane.objects.select_for_update(nowait=True).get(pk=lane.pk)
    sending.join()
    assert [answer.status for answer in answers] == [200]


def change_after_reading(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    if connection.vendor == "sqlite":
        # It has one writer at a time: a change is made before a request or after it.
        change()
        return
    read = unlocked_accept.read

    def read_and_change(*asked: Any) -> unlocked_accept.Snapshot:
        seen = read(*asked)
        change()
        return seen

    monkeypatch.setattr(unlocked_accept, "read", read_and_change)


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
