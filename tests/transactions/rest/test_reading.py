"""Reading transactions: the list, one by its ID, one by its nonce."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from eth_account import Account

from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.plans import nodes, page_statement, walks_the_primary_key
from tests.transactions.rest.requests import PATH, RECEIVER
from transactions.models import Lane, Status, Transaction
from transactions.records import reasons

pytestmark = pytest.mark.both_engines

AT = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
CREATED = {"created_at": AT}


@pytest.fixture
def lane() -> Lane:
    return lanes.lane(factories.relayer())


def ids(answer: Any) -> list[str]:
    return [each["id"] for each in answer.body["data"]]


def unknown(identifier: str) -> dict[str, Any]:
    return bodies.failure(f"Transaction with ID {identifier} not found")


def mined(lane: Lane, raw: bytes) -> Transaction:
    """Create a confirmed transaction whose second attempt was mined."""
    row = lanes.transaction(lane, **CREATED, nonce=7, status=Status.SUBMITTED, sent_at=AT, submitted_at=AT, version=6)
    lanes.attempt(row, hash="0x" + "01" * 32)
    fees = {"max_fee_text": "30", "max_priority_fee_text": "3"}
    row.mined_attempt = lanes.attempt(row, hash="0x" + "02" * 32, raw=raw, gas_limit=50_000, **fees)
    lanes.attempt(row, hash="0x" + "03" * 32)
    row.status, row.finished_at, row.block_number = Status.CONFIRMED, AT, 1234
    row.gas_used, row.effective_gas_price_text, row.succeeded = 40_000, "25", True
    row.save()
    return row


def test_a_transaction_is_shown_with_the_attempt_that_was_mined(sender: Api, lane: Lane) -> None:
    signed = Account.sign_transaction(
        {
            "type": 2, "chainId": 11155111, "nonce": 7, "to": RECEIVER, "value": 1, "gas": 50_000,
            "maxFeePerGas": 30, "maxPriorityFeePerGas": 3,
        },
        factories.KEY,
    )  # fmt: skip
    row = mined(lane, bytes(signed.raw_transaction))
    answer = sender.get(f"{PATH}/{row.identifier}")
    r, s, v = f"{signed.r:064x}", f"{signed.s:064x}", 27 + signed.v
    expected = {
        "id": row.identifier,
        "relayer_id": "relayer-1",
        "status": "confirmed",
        "status_reason": None,
        "version": 6,
        "hash": "0x" + "02" * 32,
        "nonce": 7,
        "from": factories.ADDRESS,
        "to": RECEIVER,
        "value": "0",
        "data": None,
        "data_size": 0,
        "gas_limit": 50_000,
        "gas_price": None,
        "max_fee_per_gas": "30",
        "max_priority_fee_per_gas": "3",
        "speed": "fast",
        "signature": {"r": r, "s": s, "v": v, "sig": f"{r}{s}{v:x}"},
        "is_canceled": False,
        "created_at": "2026-01-01T12:00:00.000000Z",
        "sent_at": "2026-01-01T12:00:00.000000Z",
        "confirmed_at": "2026-01-01T12:00:00.000000Z",
        "valid_until": "2100-01-01T00:00:00.000000Z",
        "block_number": 1234,
        "gas_used": 40_000,
        "effective_gas_price": "25",
        "contract_address": None,
        "external_id": None,
        "metadata": {},
    }
    assert (answer.status, answer.body) == (200, bodies.success(expected))
    assert sender.get(f"{PATH}/by-nonce/7/").body == answer.body
    assert sender.get(f"{PATH}/").body == bodies.page([expected], total_items=1)


def test_the_list_is_newest_first_in_pages(sender: Api, lane: Lane) -> None:
    rows = [lanes.transaction(lane) for _ in range(5)]
    newest_first = [row.identifier for row in reversed(rows)]
    assert ids(sender.get(PATH)) == ids(sender.get(f"{PATH}/")) == newest_first
    page = sender.get(f"{PATH}?page=2&per_page=2").body
    assert [each["id"] for each in page["data"]] == newest_first[2:4]
    assert page["pagination"].pop("next_cursor")
    assert page["pagination"] == {"current_page": 2, "per_page": 2, "total_items": 5}
    assert sender.get(f"{PATH}?per_page=0").body == bodies.page([], per_page=0, total_items=5)
    assert sender.get(f"{PATH}?page=9").body == bodies.page([], current_page=9, total_items=5)


def test_the_list_filters_by_status(sender: Api, lane: Lane) -> None:
    pending = lanes.transaction(lane)
    sent = lanes.transaction(lane, status=Status.SENT, nonce=0)
    assert ids(sender.get(f"{PATH}?status=pending")) == [pending.identifier]
    assert ids(sender.get(f"{PATH}?status=sent")) == [sent.identifier]
    assert sender.get(f"{PATH}?status=mined").body == bodies.page([], total_items=0)
    wrong = sender.get(f"{PATH}?status=lost")
    choices = "pending, sent, submitted, mined, confirmed, failed, canceled, expired"
    assert (wrong.status, bodies.uncoded(wrong.body)) == (
        400,
        bodies.bad_request(f"status: must be one of: {choices}"),
    )


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_list_finds_the_hash_of_any_attempt(sender: Api, lane: Lane, number: int) -> None:
    other = lanes.transaction(lane, status=Status.SENT, nonce=8)
    lanes.attempt(other, hash="0x" + "04" * 32)
    row = mined(lane, b"")
    wanted = "0x" + f"0{number}" * 32
    assert ids(sender.get(f"{PATH}?hash={wanted.upper().replace('X', 'x')}")) == [row.identifier]


def test_the_list_of_one_relayer_has_nothing_of_another(sender: Api, lane: Lane) -> None:
    row = lanes.transaction(lane, nonce=3, status=Status.SENT)
    lanes.attempt(row, hash="0x" + "05" * 32)
    factories.relayer(identifier="relayer-2", network="hoodi")
    path = "/api/v1/relayers/relayer-2/transactions"
    assert [sender.get(each).body["data"] for each in (path, f"{path}?hash=0x{'05' * 32}")] == [[], []]
    foreign = sender.get(f"{path}/{row.identifier}")
    assert (foreign.status, foreign.body) == (404, unknown(row.identifier))
    by_nonce = sender.get(f"{path}/by-nonce/3")
    assert (by_nonce.status, by_nonce.body) == (404, bodies.failure("Transaction with nonce 3 not found"))


def test_an_unknown_transaction_is_not_found(sender: Api, lane: Lane) -> None:
    identifier = "00000000-0000-4000-8000-000000000000"
    answer = sender.get(f"{PATH}/{identifier}")
    assert (answer.status, answer.body) == (404, unknown(identifier))
    for nonce in ("0", "9" * 19, "9" * 400):
        answer = sender.get(f"{PATH}/by-nonce/{nonce}")
        assert (answer.status, answer.body) == (404, bodies.failure(f"Transaction with nonce {nonce} not found"))
    for ending in ("", f"/{identifier}", "/by-nonce/1"):
        answer = sender.get(f"{PATH.replace('relayer-1', 'nobody')}{ending}")
        assert (answer.status, answer.body) == (404, bodies.failure("Relayer with ID nobody not found"))


def test_only_requests_of_the_current_epoch_have_a_nonce(sender: Api, lane: Lane) -> None:
    for kind, nonce in ((Transaction.Kind.GAP, 4), (Transaction.Kind.EXTERNAL, 5)):
        row = lanes.transaction(lane, kind=kind, nonce=nonce, status=Status.SENT)
        paths = [f"{PATH}/{row.identifier}", f"{PATH}/by-nonce/{nonce}"]
        assert [sender.get(path).status for path in paths] == [404, 404]
    assert sender.get(PATH).body == bodies.page([], total_items=0)
    lanes.transaction(lane, nonce=0, status=Status.FAILED)
    lane.epoch = 1
    lane.save()
    assert sender.get(f"{PATH}/by-nonce/0").status == 404
    current = lanes.transaction(lane, nonce=0, status=Status.SENT)
    assert sender.get(f"{PATH}/by-nonce/0").body["data"]["id"] == current.identifier


def test_a_long_queue_is_counted_up_to_a_maximum(sender: Api, lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    # Positions are those of the queue of the relayer.
    lanes.transaction(lane, nonce=0, status=Status.SUBMITTED, submitted_at=AT)
    lanes.transaction(lanes.lane(factories.relayer(identifier="relayer-2", network="hoodi")))
    rows = [lanes.transaction(lane) for _ in range(3)]
    listed = sender.get(f"{PATH}?per_page=2").body["data"]
    expected = [f"Position {number} of 3 in the queue of this relayer." for number in (3, 2)]
    assert [each["status_reason"] for each in listed] == expected
    monkeypatch.setattr(reasons, "MAX_POSITION", 3)
    rows += [lanes.transaction(lane) for _ in range(3)]
    found = []
    with CaptureQueriesContext(connection) as queries:
        for row in (rows[0], rows[2], rows[3], rows[5]):
            found.append(sender.get(f"{PATH}/{row.identifier.upper()}").body["data"]["status_reason"])
    places = ["Position 1 of 3+", "Position 3 of 3+", "Position 3+ of 3+", "Position 3+ of 3+"]
    assert found == [f"{place} in the queue of this relayer." for place in places]
    assert [
        each["sql"][-7:] for each in queries if 'SELECT "transactions_transaction"."sequence" AS' in each["sql"]
    ] == ["LIMIT 4"] * 4
    monkeypatch.setattr("relayer_service.api.page_sql.MAX_COUNTED", 2)
    answer = sender.get(f"{PATH}?per_page=1").body
    assert answer["pagination"].pop("next_cursor")
    assert answer["pagination"] == {"current_page": 1, "per_page": 1, "total_items": 2}
    assert answer["metadata"]["logs"] == [{"level": "log", "message": "total_items is capped: there are more than 2"}]


@pytest.mark.parametrize("query", ["", "?status=pending"])
def test_a_page_is_not_read_past_the_rows_of_other_relayers(sender: Api, lane: Lane, query: str) -> None:
    lanes.transaction(lane)
    assert not walks_the_primary_key(lambda: sender.get(f"{PATH}{query}"))


@pytest.mark.postgresql
@pytest.mark.parametrize("query", ["", "&status=pending"])
def test_a_page_of_a_queue_that_statistics_do_not_show_reads_no_later_rows(
    sender: Api, lane: Lane, query: str
) -> None:
    with connection.cursor() as cursor:
        # The heights that earlier tests left to indexes count in their costs.
        cursor.execute("REINDEX TABLE transactions_transaction")
    other = lanes.lane(factories.relayer(identifier="relayer-2", network="hoodi"))
    add_rows(other, 300, **lanes.final("failed"))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE transactions_transaction")
    add_rows(lane, 100)
    page = page_statement(lambda: sender.get(f"{PATH}?page=6&per_page=2{query}"))
    # Those of the pages before, its own, and the one that says whether others follow.
    assert max(rows for name, rows in nodes(page) if name != "Seq Scan") == 13


def add_rows(lane: Lane, count: int, **values: Any) -> None:
    values = {"lane": lane, "relayer": lane.relayer, "valid_until": AT} | values
    Transaction.objects.bulk_create(Transaction(**values) for _ in range(count))


def test_one_transaction_takes_three_queries(sender: Api, lane: Lane) -> None:
    row = lanes.transaction(lane)
    sender.get(f"{PATH}/{row.identifier}")
    with CaptureQueriesContext(connection) as queries:
        assert sender.get(f"{PATH}/{row.identifier}").status == 200
    # The relayer, the transaction, and the queue for its position.
    assert len(queries) == 3


def test_a_list_of_any_length_takes_the_same_number_of_queries(sender: Api, lane: Lane) -> None:
    counts = []
    for _ in range(3):
        for _ in range(3):
            lanes.transaction(lane)
            row = lanes.transaction(lane, status=Status.SENT, nonce=Transaction.objects.count())
            lanes.attempt(row)
        sender.get(PATH)
        with CaptureQueriesContext(connection) as queries:
            assert sender.get(f"{PATH}?per_page=100").status == 200
        counts.append(len(queries))
    # The relayer, the total, the page, and the queue for positions.
    assert counts == [4, 4, 4]
