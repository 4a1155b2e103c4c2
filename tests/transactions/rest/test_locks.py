"""Accepting beside changes of the relayer."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any

import pytest
from django.db import connection, connections, transaction

from relayers.models import Relayer
from tests.api import Answer, Api
from tests.concurrency import wait_until, waits_for_a_lock
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.rest.requests import PATH, TRANSFER
from transactions.models import Lane, Transaction
from transactions.requests.lane_locks import claim_lane


@pytest.mark.django_db
def test_the_first_request_of_a_relayer_survives_a_crash_of_the_server_too() -> None:
    relayer = factories.relayer()
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL synchronous_commit = off")
        claimed = claim_lane(relayer, 31337, relayer.address)
        assert claimed.lane.relayer_id == relayer.pk
        if connection.vendor == "postgresql":
            cursor.execute("SHOW synchronous_commit")
            assert cursor.fetchone() == ("on",)


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
        # The request waits for the relayer by now.
        wait_until(waits_for_a_lock)
        Lane.objects.select_for_update(nowait=True).get(pk=lane.pk)
    sending.join()
    assert [answer.status for answer in answers] == [200]
