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


TAKEN = "Another relayer sends with this account on this chain: use that one, or choose another signer"


@pytest.mark.parametrize(
    ("change", "status", "code", "message"),
    [
        ({"paused": True}, 403, "relayer_paused", "Relayer paused"),
        ({"address": ""}, 409, "account_unknown", "Relayer has no address: its signer has not provided one yet"),
        ({"network": "my-chain"}, 409, "account_unknown", "Relayer has no chain ID: its network is unknown"),
        ({}, 409, "account_taken", TAKEN),
    ],
)
def test_a_relayer_that_cannot_send_refuses(
    sender: Api, change: dict[str, Any], status: int, code: str, message: str
) -> None:
    if code == "account_taken":
        lanes.lane(factories.relayer(identifier="first"))
    factories.relayer(**change)
    answer = sender.post(PATH, TRANSFER)
    assert (answer.status, answer.body) == (status, bodies.failure(message))
    assert answer.headers["error-code"] == code
    assert "www-authenticate" not in answer.headers
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
    # One that the health check has disabled accepts.
    lane = lanes.lane(factories.relayer(system_disabled=True, disabled_reason_type="NonceSyncFailed"))
    lanes.transaction(lane, status=Status.SENT, nonce=0)
    assert [sender.post(PATH, TRANSFER).status for _ in range(2)] == [200, 200]
    answer = sender.post(PATH, TRANSFER)
    expected = bodies.failure("Relayer has 2 pending transactions, the maximum")
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (429, expected, "12")
    assert answer.headers["error-code"] == "queue_full"
    assert Transaction.objects.count() == 3
    # The queue of another relayer is not full.
    factories.relayer(identifier="relayer-2", network="hoodi")
    assert sender.post(PATH.replace("relayer-1", "relayer-2"), TRANSFER).status == 200
