"""What is refused because of the relayer's state, whatever was sent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.rest.requests import PATH, TRANSFER
from transactions.models import Lane, Status, Transaction


@pytest.mark.parametrize("identifier", ["relayer-1", "a\0b", "a/transactions"])
def test_an_unknown_relayer_is_not_found(sender: Api, identifier: str) -> None:
    answer = sender.post(f"/api/v1/relayers/{identifier}/transactions", TRANSFER)
    assert (answer.status, answer.body) == (404, bodies.failure(f"Relayer with ID {identifier} not found"))


def test_a_paused_relayer_refuses(sender: Api) -> None:
    factories.relayer(paused=True)
    answer = sender.post(PATH, TRANSFER)
    assert (answer.status, answer.body) == (403, bodies.failure("Relayer paused"))
    assert "www-authenticate" not in answer.headers
    assert answer.headers["error-code"] == "relayer_paused"
    assert (Transaction.objects.count(), Lane.objects.count()) == (0, 0)


def test_a_relayer_that_the_health_check_disabled_accepts(sender: Api) -> None:
    factories.relayer(system_disabled=True, disabled_reason_type="NonceSyncFailed")
    assert sender.post(PATH, TRANSFER).status == 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"address": ""}, "Relayer has no address: its signer has not provided one yet"),
        ({"network": "my-chain"}, "Relayer has no chain ID: its network is unknown"),
    ],
)
def test_a_relayer_whose_account_is_unknown_refuses(sender: Api, change: dict[str, Any], message: str) -> None:
    factories.relayer(**change)
    answer = sender.post(PATH, TRANSFER)
    assert (answer.status, answer.body) == (409, bodies.failure(message))
    assert answer.headers["error-code"] == "account_unknown"


def test_an_account_sends_for_one_relayer_only(sender: Api) -> None:
    lanes.lane(factories.relayer(identifier="first"))
    factories.relayer()
    answer = sender.post(PATH, TRANSFER)
    message = "The account of this relayer belongs to another relayer"
    assert (answer.status, answer.body) == (409, bodies.failure(message))
    assert answer.headers["error-code"] == "account_taken"
    assert not Transaction.objects.exists()


@pytest.mark.parametrize("status", [Status.PENDING, Status.SUBMITTED])
def test_an_account_is_not_left_with_open_transactions(sender: Api, status: Status) -> None:
    lane = lanes.lane(factories.relayer())
    lanes.transaction(lane, status=status, nonce=None if status == Status.PENDING else 0)
    assert lane.relayer is not None
    lane.relayer.network = "hoodi"
    lane.relayer.save()
    answer = sender.post(PATH, TRANSFER)
    message = "The former account of this relayer has transactions that are not final"
    assert (answer.status, answer.body) == (409, bodies.failure(message))
    assert (Transaction.objects.count(), Lane.objects.get().chain_id) == (1, 11155111)


def test_a_full_queue_refuses_until_the_next_block(sender: Api, settings: Any) -> None:
    settings.TRANSACTION_QUEUE_LIMIT = 2
    lane = lanes.lane(factories.relayer())
    lanes.transaction(lane, status=Status.SENT, nonce=0)
    first, second = sender.post(PATH, TRANSFER), sender.post(PATH, TRANSFER)
    reasons = [answer.body["data"]["status_reason"] for answer in (first, second)]
    assert reasons == [f"Position {n} of {n} in the queue of this relayer." for n in (1, 2)]
    answer = sender.post(PATH, TRANSFER)
    expected = bodies.failure("Relayer has 2 pending transactions, the maximum")
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (429, expected, "12")
    assert answer.headers["error-code"] == "queue_full"
    assert Transaction.objects.count() == 3


def test_the_queue_of_one_relayer_does_not_fill_that_of_another(sender: Api, settings: Any) -> None:
    settings.TRANSACTION_QUEUE_LIMIT = 1
    factories.relayer()
    factories.relayer(identifier="relayer-2", network="hoodi")
    paths = [PATH, PATH.replace("relayer-1", "relayer-2")]
    assert [sender.post(path, TRANSFER).status for path in (*paths, *paths)] == [200, 200, 429, 429]
