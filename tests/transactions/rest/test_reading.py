"""Reading transactions: the list, one by its ID, one by its nonce."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from eth_account import Account

from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.spending.payloads import MALLORY, TOKEN, call
from tests.spending.payloads import TRANSFER as PAY
from tests.transactions import factories as lanes
from tests.transactions.plans import nodes, page_statement, walks_the_primary_key
from tests.transactions.rest.requests import PATH, RECEIVER
from tokens.writes import issue, rotate
from transactions.models import Lane, MetadataPair, Status, Transaction
from transactions.records import finding, reasons

pytestmark = pytest.mark.both_engines

AT = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
CREATED = {"created_at": AT}
OTHER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"


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


@pytest.mark.parametrize("many", [1_000, 1])
def test_the_list_finds_what_a_client_knows_of_a_transaction(
    sender: Api, lane: Lane, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Found by its index, or in the order of the list.
    monkeypatch.setattr(finding, "MANY", many)
    labels = {"idempotency_key": "Order-7", "external_id": "Invoice 7", "metadata": {"shop": "berlin:7", "n": "1"}}
    row = lanes.transaction(lane, to=OTHER, **labels)
    lanes.transaction(
        lane, idempotency_key="order-7", external_id="invoice 7", metadata={"shop": "berlin", "n": "berlin:7"}
    )
    lanes.transaction(lane)
    for query in (
        {"idempotency_key": "Order-7"},
        {"external_id": "Invoice 7"},
        {"metadata": "shop:berlin:7"},
        {"to": OTHER.lower()},
        {"to": OTHER, "status": "pending", "external_id": "Invoice 7"},
    ):
        assert ids(sender.get(f"{PATH}?{urlencode(query)}")) == [row.identifier], query
    for query in (
        {"metadata": "shop"},
        {"metadata": "shop:\0"},
        {"external_id": "Invoice"},
        {"external_id": "Invoice 7\0"},
        {"to": OTHER, "status": "failed"},
    ):
        assert ids(sender.get(f"{PATH}?{urlencode(query)}")) == [], query
    # The recipient of tokens, which the calldata has: as it is accepted, and as it is replaced.
    paid = {"to": TOKEN, "value": 0, "data": f"0x{call(PAY, OTHER, 5).hex()}"}
    accepted = sender.post(PATH, paid).body["data"]["id"]
    assert ids(sender.get(f"{PATH}?to={OTHER}")) == [accepted, row.identifier]
    sender("PUT", f"{PATH}/{accepted}", {**paid, "data": f"0x{call(PAY, MALLORY, 5).hex()}"})
    assert [ids(sender.get(f"{PATH}?to={each}")) for each in (OTHER, MALLORY)] == [[row.identifier], [accepted]]
    wrong = sender.get(f"{PATH}?to=me")
    message = "to: must be an EVM address: 0x and 40 hexadecimal digits"
    assert (wrong.status, bodies.uncoded(wrong.body)) == (400, bodies.bad_request(message))


def test_pairs_of_metadata_are_deleted_with_their_transaction(db: None, lane: Lane) -> None:
    row = lanes.transaction(lane, metadata={"shop": "berlin"})
    assert [str(pair) for pair in MetadataPair.objects.all()] == ["shop:berlin"]
    row.delete()
    assert not MetadataPair.objects.exists()


def test_the_list_finds_what_a_token_and_its_successors_requested(sender: Api, lane: Lane, user: User) -> None:
    token, _ = issue(name="ci", user=user)
    successor = rotate(token.pk).new
    row = lanes.transaction(lane, requester=token.key)
    lanes.transaction(lane, requester="")
    keys = (token.key, f"rms_{successor.key}_…", "unknown", "", "\0")
    found = [ids(sender.get(f"{PATH}?{urlencode({'token': key})}")) for key in keys]
    assert found == [[row.identifier], [row.identifier], [], [], []]


def test_the_list_has_a_range_of_creation_newest_first(sender: Api, lane: Lane) -> None:
    # Numbered in another order than that of their times, as rows of the same minutes may be.
    minutes = (0, 10, 5, 25, 20)
    rows = [lanes.transaction(lane, created_at=AT + timedelta(minutes=each)).identifier for each in minutes]
    start, end = (f"{AT + timedelta(minutes=each):%Y-%m-%dT%H:%M:%SZ}" for each in (5, 25))
    assert ids(sender.get(f"{PATH}?created_from={start}&created_before={end}")) == [rows[4], rows[2], rows[1]]
    assert ids(sender.get(f"{PATH}?created_from={end}")) == [rows[3]]
    assert ids(sender.get(f"{PATH}?created_before={start}")) == [rows[0]]
    ever = f"{PATH}?created_from=0001-01-01T00:00:00Z&created_before=9999-12-31T23:59:59Z"
    assert ids(sender.get(ever)) == rows[::-1]


def test_the_list_has_a_range_of_ends_the_last_first_in_pages(sender: Api, lane: Lane) -> None:
    ends = (30, 10, 20, 0, None)
    rows = [
        lanes.transaction(
            lane, **(lanes.final("failed") | {"finished_at": AT + timedelta(minutes=end)} if end is not None else {})
        )
        for end in ends
    ]
    start = f"{AT + timedelta(minutes=10):%Y-%m-%dT%H:%M:%SZ}"
    query = f"{PATH}?finished_from={start}&per_page=1"
    found, cursor = [], ""
    for _ in range(3):
        answer = sender.get(f"{query}{cursor}")
        found += ids(answer)
        cursor = f"&cursor={answer.body['pagination'].get('next_cursor')}"
    assert found == [rows[number].identifier for number in (0, 2, 1)]
    assert cursor == "&cursor=None"
    assert ids(sender.get(f"{PATH}?finished_before={start}")) == [rows[3].identifier]
    # A cursor of another order.
    cursor = sender.get(query).body["pagination"]["next_cursor"]
    assert sender.get(f"{PATH}?per_page=1&cursor={cursor}").status == 400


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
