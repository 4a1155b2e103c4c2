"""Idempotency-Key: a transaction that is sent again is the same one, as long as its row exists."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction

from relayers.models import Relayer
from tests.api import Answer, Api
from tests.concurrency import in_threads
from tests.contract import bodies
from tests.relayers import factories
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY
from tests.transactions import factories as lanes
from tests.transactions.rest.requests import PATH, RECEIVER, TRANSFER
from tokens.writes import issue
from transactions.models import Lane, StatusChange, Transaction

pytestmark = pytest.mark.both_engines

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


@pytest.mark.parametrize("body", [{**TRANSFER, "value": "1"}, {**TRANSFER, "speed": "fast"}])
def test_another_body_under_the_same_key_is_a_conflict(sender: Api, body: dict[str, Any]) -> None:
    factories.relayer()
    # A refused request does not use its key, and those without one are others.
    assert send(sender, {**TRANSFER, "gas_limit": 1}).status == 400
    assert [sender.post(PATH, TRANSFER).status for _ in range(2)] == [200, 200]
    answer = send(sender)
    assert (answer.status, "idempotent-replayed" in answer.headers) == (200, False)
    answer = send(sender, body)
    assert (answer.status, answer.body) == (409, bodies.failure(OTHER_BODY))
    assert answer.headers["error-code"] == "idempotency_key_reused"
    assert Transaction.objects.count() == 3


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_other", [False, True])
def test_of_32_concurrent_requests_one_is_accepted(sender: Api, is_other: bool) -> None:
    factories.relayer()
    # SQLite lets one writer in at a time, and the last of many would wait too long on a busy machine.
    count = 32 if connection.vendor == "postgresql" else 8
    bodies_sent = [{**TRANSFER, "value": value if is_other else 1} for value in range(count)]
    answers = in_threads(*[lambda body=body: send(sender, body) for body in bodies_sent])
    statuses = [200, *[409] * (count - 1)] if is_other else [200] * count
    assert sorted(answer.status for answer in answers) == statuses
    done = [answer for answer in answers if answer.status == 200]
    assert len({answer.body["data"]["id"] for answer in done}) == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in done) == 1
    assert [model.objects.count() for model in (Transaction, StatusChange, Lane)] == [1, 1, 1]


def test_a_key_is_of_one_relayer_whichever_token_sends(sender: Api, user: User) -> None:
    factories.relayer()
    factories.relayer(identifier="relayer-2", network="hoodi")
    rotated = Api(issue(name="payments, rotated", user=user, scopes=["send"])[1])
    answers = [send(sender), send(rotated), send(sender, path=PATH.replace("relayer-1", "relayer-2"))]
    assert [answer.status for answer in answers] == [200, 200, 200]
    ids = [answer.body["data"]["id"] for answer in answers]
    assert (ids[0] == ids[1], ids[0] == ids[2], Transaction.objects.count()) == (True, False, 2)


def recreate(relayer: Relayer) -> Relayer:
    with transaction.atomic():
        relayer.delete()
        return factories.relayer()


def test_a_key_survives_the_re_creation_of_its_relayer(sender: Api) -> None:
    relayer = factories.relayer()
    first = send(sender)
    Transaction.objects.update(**lanes.final("expired"))
    recreate(relayer)
    again, other = send(sender), send(sender, {**TRANSFER, "value": 2})
    assert (again.body["data"]["id"], again.headers["idempotent-replayed"]) == (first.body["data"]["id"], "true")
    assert (other.status, other.body) == (409, bodies.failure(OTHER_BODY))
    assert sender.get(f"{PATH}/{again.body['data']['id']}").body == again.body
    assert Transaction.objects.count() == 1


def test_a_key_survives_a_change_of_the_relayers_account(sender: Api) -> None:
    relayer = factories.relayer()
    first = send(sender).body["data"]
    # An account has a key once.
    with pytest.raises(IntegrityError), transaction.atomic():
        lanes.transaction(Lane.objects.get(), relayer=None, idempotency_key=KEY)
    Transaction.objects.update(**lanes.final("expired"))
    Lane.objects.update(relayer=None)
    Relayer.objects.update(signer=factories.signer("signer-2", OTHER_KEY), address=OTHER_ADDRESS)
    again = send(sender).body["data"]
    assert (again["id"], again["from"]) == (first["id"], relayer.address)
    # If relayer and account have the key, that of the relayer counts.
    other = Lane.objects.create(chain_id=relayer.expected_chain_id or 0, address=OTHER_ADDRESS)
    lanes.transaction(other, idempotency_key=KEY, **lanes.final("expired"))
    assert send(sender).body["data"]["id"] == first["id"]
    assert send(sender, {**TRANSFER, "value": 2}).status == 409
    assert Transaction.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_retries_beside_the_re_creation_of_a_relayer_are_one_transaction(sender: Api) -> None:
    relayer = factories.relayer()
    lanes.lane(relayer)
    works = [lambda: send(sender)] * 4
    answers = in_threads(*works, lambda: recreate(relayer), *works)
    sent = [answer for answer in [*answers[:4], *answers[5:], send(sender)] if answer.status != 404]
    assert {answer.status for answer in sent} == {200}
    assert len({answer.body["data"]["id"] for answer in sent}) == 1
    assert Transaction.objects.count() == 1


def test_a_replay_does_not_depend_on_what_has_changed_since(sender: Api, settings: Any) -> None:
    relayer = factories.relayer()
    first = send(sender)
    settings.TRANSACTION_QUEUE_LIMIT = 1
    relayer.paused, relayer.policies = True, {"whitelist_receivers": []}
    relayer.save()
    again = send(sender)
    assert (again.status, again.body["data"]["id"]) == (200, first.body["data"]["id"])
    assert again.body["data"]["status_reason"] == "The relayer is paused."


@pytest.mark.django_db(transaction=True)
def test_concurrent_first_requests_share_one_lane(sender: Api) -> None:
    factories.relayer()
    answers = in_threads(*[lambda: sender.post(PATH, TRANSFER)] * 8)
    assert {answer.status for answer in answers} == {200}
    assert (Transaction.objects.count(), Lane.objects.count()) == (8, 1)
