"""Large data of transactions: whole in a single response, left out of lists, which never have all of it in memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.hardhat import signed
from tests.transactions.rest.requests import PATH, RECEIVER
from transactions.models import Attempt, Lane, Status, Transaction

LARGE = bytes(range(256)) * 512
OLD_RECEIVER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
PER_PAGE = 1_000


@pytest.fixture
def lane() -> Lane:
    return lanes.lane(factories.relayer())


def sent(lane: Lane, data: bytes, **signed_fields: Any) -> Transaction:
    """Create a transaction in flight, with its signed bytes."""
    row = lanes.transaction(lane, nonce=Transaction.objects.count(), status=Status.SENT, data=data)
    lanes.attempt(row, raw=signed(data=data, **signed_fields))
    return row


@pytest.mark.django_db
@pytest.mark.parametrize("size", [0, 1, 1_024, 1_025, 2_048, len(LARGE)])
@pytest.mark.parametrize("prices", [{}, {"gasPrice": 10**9}])
def test_a_list_shows_all_but_large_data(sender: Api, lane: Lane, size: int, prices: dict[str, Any]) -> None:
    row = sent(lane, LARGE[:size], **prices)
    single = sender.get(f"{PATH}/{row.identifier}").body["data"]
    assert (single["data"], single["data_size"]) == (f"0x{LARGE[:size].hex()}" if size else None, size)
    assert single["signature"] is not None
    shown = {**single, "data": single["data"] if size <= 1_024 else None}
    assert sender.get(PATH).body == bodies.page([shown], total_items=1)


@pytest.mark.django_db
@pytest.mark.parametrize("size", [1_024, len(LARGE)])
def test_a_list_shows_what_was_executed_after_a_late_replacement(sender: Api, lane: Lane, size: int) -> None:
    row = sent(lane, LARGE[:size], to=OLD_RECEIVER, value=5)
    row.status, row.mined_attempt, row.payload_version, row.data = Status.MINED, row.last_attempt, 2, b"\1"
    row.save()
    single = sender.get(f"{PATH}/{row.identifier}").body["data"]
    assert (single["to"], single["value"], single["data_size"]) == (OLD_RECEIVER, "5", size)
    (listed,) = sender.get(PATH).body["data"]
    assert listed == {**single, "data": single["data"] if size <= 1_024 else None}


@pytest.mark.django_db
def test_a_page_of_large_rows_takes_little_memory(sender: Api, lane: Lane) -> None:
    """Their data alone has 32 MB, as text 64 MB, and their signed bytes as much."""
    data = LARGE[: 32 * 1_024]
    raw = signed(data=data)
    first = sent(lane, data)
    rows = Transaction.objects.bulk_create(
        Transaction(
            relayer=lane.relayer, lane=lane, to=RECEIVER, valid_until=first.valid_until,
            nonce=number, status=Status.SENT, data=data,
        )
        for number in range(1, PER_PAGE)
    )  # fmt: skip
    attempts = Attempt.objects.bulk_create(
        Attempt(
            transaction=row, number=1, purpose=Attempt.Purpose.SEND, lane=lane, epoch=0, nonce=number,
            hash=f"0x{number:064x}", raw=raw, gas_limit=21_000, signed_at=first.valid_until,
        )
        for number, row in enumerate(rows, start=1)
    )  # fmt: skip
    for row, attempt in zip(rows, attempts, strict=True):
        row.last_attempt = attempt
    Transaction.objects.bulk_update(rows, ["last_attempt"])
    del rows, attempts
    sender.get(PATH)
    tracemalloc.start()
    try:
        answer = sender.get(f"{PATH}?per_page={PER_PAGE}")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    found = answer.body["data"]
    assert (len(found), {each["data_size"] for each in found}) == (PER_PAGE, {len(data)})
    assert len(answer.text) < 2 * 2**20
    assert peak < 24 * 2**20
