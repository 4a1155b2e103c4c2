"""Sending: the whole answer, what is stored, and how little it costs."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from relayer_service.background.tasks import queue
from relayer_service.database.clock import timestamp
from relayer_service.observability.logs import TextFormatter
from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions.factories import final
from tests.transactions.rest.requests import PATH, RECEIVER, TRANSFER
from transactions import changes
from transactions.models import Lane, StatusChange, Transaction

ACCEPTED: dict[str, Any] = {
    "relayer_id": "relayer-1",
    "status": "pending",
    "status_reason": "Position 1 of 1 in the queue of this relayer.",
    "version": 1,
    "hash": None,
    "nonce": None,
    "from": factories.ADDRESS,
    "to": RECEIVER,
    "value": "1",
    "data": None,
    "data_size": 0,
    "gas_limit": None,
    "gas_price": None,
    "max_fee_per_gas": None,
    "max_priority_fee_per_gas": None,
    "speed": "fast",
    "signature": None,
    "is_canceled": False,
    "sent_at": None,
    "confirmed_at": None,
    "block_number": None,
    "gas_used": None,
    "effective_gas_price": None,
    "contract_address": None,
    "external_id": None,
    "metadata": {},
}


def of_row(row: Transaction) -> dict[str, str]:
    """Return what the database has chosen of an answer."""
    return {
        "id": row.identifier,
        "created_at": timestamp(row.created_at),
        "valid_until": timestamp(row.valid_until),
    }


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({**TRANSFER, "value": 2**256 - 1}, {"value": str(2**256 - 1)}),
        ({**TRANSFER, "value": "0xde0b6b3a7640000"}, {"value": "1000000000000000000"}),
        ({**TRANSFER, "to": RECEIVER.lower()}, {}),
        ({**TRANSFER, "speed": "safeLow", "gas_limit": None, "data": "0x"}, {"speed": "safeLow"}),
        ({**TRANSFER, "gas_price": "7", "gas_limit": 21_000}, {"gas_price": "7", "speed": None, "gas_limit": 21_000}),
        (
            {**TRANSFER, "max_fee_per_gas": 9, "max_priority_fee_per_gas": "0x9"},
            {"max_fee_per_gas": "9", "max_priority_fee_per_gas": "9", "speed": None},
        ),
        ({"value": 0, "data": "600160"}, {"to": None, "value": "0", "data": "0x600160", "data_size": 3}),
    ],
)
def test_a_transaction_is_accepted_as_it_was_sent(sender: Api, body: dict[str, Any], shown: dict[str, Any]) -> None:
    factories.relayer()
    answer = sender.post(PATH, body)
    expected = ACCEPTED | of_row(Transaction.objects.get()) | shown
    assert (answer.status, answer.body) == (200, bodies.success(expected))
    assert "idempotent-replayed" not in answer.headers


@pytest.mark.django_db(transaction=True)
def test_the_first_one_creates_the_lane_and_the_time_line_begins(
    sender: Api, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, changes.__name__)
    relayer = factories.relayer(network="my-chain", chain_id=4242)
    ids = [sender.post(PATH, {**TRANSFER, "gas_limit": 2**40}).body["data"]["id"] for _ in range(2)]
    lane = Lane.objects.get()
    assert (lane.chain_id, lane.address, lane.relayer, lane.next_nonce) == (4242, relayer.address, relayer, None)
    rows = list(Transaction.objects.values_list("lane", "relayer", "kind", "status", "nonce", "epoch"))
    assert rows == [(lane.pk, relayer.pk, "request", "pending", None, 0)] * 2
    assert all(row.requested_by.startswith("payments (rms_") for row in Transaction.objects.all())
    lines = StatusChange.objects.order_by("pk")
    assert [(line.transaction_id, line.version, line.from_status, line.to_status, line.at) for line in lines] == [
        (row.pk, 1, "", "pending", row.created_at) for row in Transaction.objects.all()
    ]
    # The worker is woken once the rows are committed.
    assert {task.args for task in queue.pending() if task.name == "wake_lane"} == {(lane.pk,)}
    logged = [TextFormatter().format(record) for record in caplog.records if record.name == changes.__name__]
    expected = "transaction={} relayer=relayer-1 status=pending cause=it is accepted"
    for line, identifier in zip(logged, ids, strict=True):
        assert line.endswith(f": Status changed {expected.format(identifier)}")


def test_a_lane_is_continued_by_whoever_has_its_account(sender: Api) -> None:
    former = factories.relayer(identifier="former")
    Lane.objects.create(chain_id=11155111, address=former.address, relayer=former, next_nonce=7)
    former.delete()
    relayer = factories.relayer()
    assert sender.post(PATH, TRANSFER).status == 200
    lanes = Lane.objects.order_by("pk").values_list("chain_id", "next_nonce", "relayer__identifier")
    assert [*lanes] == [(11155111, 7, "relayer-1")]
    # The relayer is given another account.
    Transaction.objects.update(**final("failed"))
    relayer.network = "hoodi"
    relayer.save()
    assert sender.post(PATH, TRANSFER).status == 200
    assert [*lanes.all()] == [(11155111, 7, None), (560048, None, "relayer-1")]


def test_it_expires_after_the_hours_of_the_setting_or_when_the_client_says(sender: Api, settings: Any) -> None:
    factories.relayer()
    settings.TRANSACTION_VALID_HOURS = 2
    shown = sender.post(PATH, TRANSFER).body["data"]
    start, end = (datetime.fromisoformat(shown[name]) for name in ("created_at", "valid_until"))
    assert end - start == timedelta(hours=2)
    for sent in ("2099-12-31T23:00:00.5-01:00", "2100-01-01t00:00:00.500000000z", "2100-01-01 00:00:00.5+00:00"):
        answer = sender.post(PATH, {**TRANSFER, "valid_until": sent})
        assert answer.body["data"]["valid_until"] == "2100-01-01T00:00:00.500000Z"


def test_accepting_takes_few_statements(sender: Api) -> None:
    factories.relayer()
    sender.post(PATH, TRANSFER)
    with CaptureQueriesContext(connection) as queries:
        assert sender.post(PATH, TRANSFER).status == 200
    statements = [query["sql"].split()[0] for query in queries]
    # PostgreSQL reads everything at once, and inserts if it is unchanged; alone, that is a transaction of its own.
    expected = {
        "postgresql": ["SELECT", "SAVEPOINT", "WITH", "RELEASE"],
        "sqlite": ["SAVEPOINT", *["SELECT"] * 3, "INSERT", "INSERT", "RELEASE"],
    }
    assert statements == expected[connection.vendor]


def test_an_id_with_slashes_and_spaces_is_part_of_the_path(sender: Api) -> None:
    factories.relayer(identifier="a/b c/transactions/d")
    sent = sender.post("/api/v1/relayers/a%2Fb%20c/transactions/d/transactions/", TRANSFER)
    assert (sent.status, sent.body["data"]["relayer_id"]) == (200, "a/b c/transactions/d")
    path = f"/api/v1/relayers/a/b%20c/transactions/d/transactions/{sent.body['data']['id']}"
    assert sender.get(path).body == sent.body
