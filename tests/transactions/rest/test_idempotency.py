"""Idempotency-Key: a transaction that is sent again is the same one, as long as its row exists."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from tests.api import Answer, Api
from tests.concurrency import in_threads
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.rest.requests import PATH, RECEIVER, TRANSFER
from tokens.writes import issue
from transactions.models import Lane, StatusChange, Transaction

KEY = "order-4711"
OTHER_BODY = "The Idempotency-Key was already used with a different body"


def send(api: Api, body: Any = TRANSFER, key: str = KEY, path: str = PATH) -> Answer:
    return api.post(path, body, headers={"Idempotency-Key": key})


def test_the_same_request_returns_the_same_transaction_as_it_is_now(sender: Api) -> None:
    factories.relayer()
    first = send(sender)
    row = Transaction.objects.get()
    row.status, row.nonce, row.version = "submitted", 3, 2
    row.save()
    lanes.attempt(row, hash="0x" + "ab" * 32)
    # The same fields in another order.
    again = send(sender, {"value": 1, "to": RECEIVER}, path=f"{PATH}/")
    assert (first.status, again.status) == (200, 200)
    assert ("idempotent-replayed" in first.headers, again.headers["idempotent-replayed"]) == (False, "true")
    assert again.body == sender.get(f"{PATH}/{row.identifier}").body
    assert [again.body["data"][name] for name in ("id", "status", "nonce", "hash")] == [
        first.body["data"]["id"], "submitted", 3, "0x" + "ab" * 32
    ]  # fmt: skip
    assert Transaction.objects.count() == 1


@pytest.mark.parametrize("body", [{**TRANSFER, "value": 2}, {**TRANSFER, "value": "1"}, {**TRANSFER, "speed": "fast"}])
def test_another_body_under_the_same_key_is_a_conflict(sender: Api, body: dict[str, Any]) -> None:
    factories.relayer()
    send(sender)
    answer = send(sender, body)
    assert (answer.status, answer.body) == (409, bodies.failure(OTHER_BODY))
    assert answer.headers["error-code"] == "idempotency_key_reused"
    assert Transaction.objects.count() == 1


def test_a_key_is_of_one_relayer_whichever_token_sends(sender: Api, user: User) -> None:
    factories.relayer()
    factories.relayer(identifier="relayer-2", network="hoodi")
    rotated = Api(issue(name="payments, rotated", user=user, scopes=["send"])[1])
    answers = [send(sender), send(rotated), send(sender, path=PATH.replace("relayer-1", "relayer-2"))]
    assert [answer.status for answer in answers] == [200, 200, 200]
    ids = [answer.body["data"]["id"] for answer in answers]
    assert (ids[0] == ids[1], ids[0] == ids[2], Transaction.objects.count()) == (True, False, 2)


def test_a_replay_does_not_depend_on_what_has_changed_since(sender: Api, settings: Any) -> None:
    relayer = factories.relayer()
    first = send(sender)
    settings.TRANSACTION_QUEUE_LIMIT = 1
    relayer.paused, relayer.policies = True, {"whitelist_receivers": []}
    relayer.save()
    again = send(sender)
    assert (again.status, again.body["data"]["id"]) == (200, first.body["data"]["id"])
    assert again.body["data"]["status_reason"] == "The relayer is paused."


def test_a_refused_request_does_not_use_its_key(sender: Api) -> None:
    factories.relayer()
    assert send(sender, {**TRANSFER, "gas_limit": 1}).status == 400
    answer = send(sender)
    assert (answer.status, "idempotent-replayed" in answer.headers) == (200, False)


def test_without_a_key_the_same_body_is_another_transaction(sender: Api) -> None:
    factories.relayer()
    assert [sender.post(PATH, TRANSFER).status for _ in range(2)] == [200, 200]
    assert Transaction.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_of_32_concurrent_requests_one_is_accepted_and_all_return_it(sender: Api) -> None:
    factories.relayer()
    # SQLite lets one writer in at a time, and the last of many would wait too long on a busy machine.
    answers = in_threads(*[lambda: send(sender)] * (32 if connection.vendor == "postgresql" else 8))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body["data"]["id"] for answer in answers}) == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1
    assert [model.objects.count() for model in (Transaction, StatusChange, Lane)] == [1, 1, 1]


@pytest.mark.django_db(transaction=True)
def test_of_concurrent_requests_with_other_bodies_one_is_accepted(sender: Api) -> None:
    lanes.lane(factories.relayer())
    works = [lambda value=value: send(sender, {**TRANSFER, "value": value}) for value in range(16)]
    answers = in_threads(*works)
    assert sorted(answer.status for answer in answers) == [200, *[409] * 15]
    assert Transaction.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_concurrent_first_requests_share_one_lane(sender: Api) -> None:
    factories.relayer()
    answers = in_threads(*[lambda: sender.post(PATH, TRANSFER)] * 8)
    assert {answer.status for answer in answers} == {200}
    assert (Transaction.objects.count(), Lane.objects.count()) == (8, 1)
