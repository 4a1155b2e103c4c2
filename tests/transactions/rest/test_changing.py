"""Canceling, replacing and speeding up: whole answers, what is recorded for the lane, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from relayer_service.background.tasks import queue
from relayer_service.database.clock import timestamp
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.rest.requests import PATH, RECEIVER, TRANSFER
from tests.transactions.rest.test_sending import ACCEPTED, of_row
from transactions.models import Attempt, Lane, Status, Transaction

AT = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
HASH = "0x" + "01" * 32
HELD = {"operator": {"since": "2026-01-01T12:00:00.000000Z", "details": "Maintenance"}}
MAX_FEES = ("max_fee_per_gas", "max_priority_fee_per_gas")
LEGACY = {"gas_price_text": "800"}
FEES = {"max_fee_text": "800", "max_priority_fee_text": "80"}
IN_FLIGHT = {
    **ACCEPTED,
    "status": "submitted",
    "version": 2,
    "hash": HASH,
    "nonce": 7,
    "value": "0",
    "gas_limit": 21_000,
    "max_fee_per_gas": "800",
    "max_priority_fee_per_gas": "80",
    "sent_at": timestamp(AT),
}


@pytest.fixture
def lane() -> Lane:
    return lanes.lane(factories.relayer(), next_nonce=8)


def in_flight(lane: Lane, prices: dict[str, str] | None = None, **changes: Any) -> Transaction:
    values = {"nonce": 7, "status": Status.SUBMITTED, "sent_at": AT, "submitted_at": AT}
    row = lanes.transaction(lane, **values | changes)
    lanes.attempt(row, hash=HASH if row.nonce == 7 else f"0x{row.nonce:064x}", **(FEES if prices is None else prices))
    return row


def path_of(row: Transaction) -> str:
    return f"{PATH}/{row.identifier}"


def requested(row: Transaction) -> tuple[str, str, int]:
    row.refresh_from_db()
    return row.status, row.requested_action, row.version


def refused(answer: Any, *faults: str) -> None:
    assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(*faults))


def test_a_pending_transaction_is_canceled_at_once(sender: Api, lane: Lane) -> None:
    row = lanes.transaction(lane, value_text="1")
    answer = sender("DELETE", path_of(row))
    row.refresh_from_db()
    changed = {"status": "canceled", "status_reason": "It was canceled before it was sent.", "version": 2}
    expected = {**ACCEPTED, **changed, "is_canceled": True, **of_row(row)}
    assert (answer.status, answer.body) == (200, bodies.success(expected))
    assert requested(row) == ("canceled", "", 2)
    entry = AuditEntry.objects.for_row(row).get()
    assert (entry.reason.startswith("Cancellation requested by payments "), entry.actor_kind) == (True, "token")


def test_a_transaction_in_flight_is_canceled_by_its_lane(sender: Api, lane: Lane) -> None:
    row, before = in_flight(lane, requested_action="expire", action_reason="It expired."), queue.storage.queue_size()
    answer = sender("DELETE", f"{path_of(row)}/")
    row.refresh_from_db()
    reason = "It is being replaced by a no-op: Its cancellation was requested."
    expected = {**IN_FLIGHT, "status_reason": reason, "is_canceled": True, **of_row(row)}
    assert (answer.status, answer.body) == (200, bodies.success(expected))
    assert requested(row) == ("submitted", "cancel", 2)
    assert queue.storage.queue_size() == before + 1
    # Requested again, it changes nothing.
    assert sender("DELETE", path_of(row)).body == answer.body
    for answer in (sender("PUT", path_of(row), TRANSFER), sender.post(f"{path_of(row)}/speed-up", {})):
        assert (answer.status, answer.body) == (409, bodies.failure("Its cancellation was requested already."))


def test_a_pending_transaction_is_replaced_at_once(sender: Api, lane: Lane) -> None:
    row = lanes.transaction(lane, status_reason="It waits.", tries=3)
    body = {**TRANSFER, "value": 5, "data": "0x01", "gas_price": 7, "gas_limit": 50_000}
    answer = sender("PUT", path_of(row), body)
    row.refresh_from_db()
    data = {"data": "0x01", "data_size": 1}
    changed = {"version": 2, "value": "5", **data, "gas_price": "7", "speed": None, "gas_limit": 50_000}
    assert (answer.status, answer.body) == (200, bodies.success({**ACCEPTED, **changed, **of_row(row)}))
    assert (row.payload_version, row.requested_action, row.tries) == (2, "", 0)


@pytest.mark.parametrize(
    ("method", "ending", "body", "action", "reason", "shown"),
    [
        ("PUT", "", {**TRANSFER, "value": 5}, "replace", "Its replacement is being signed.", {"value": "5"}),
        ("POST", "/speed-up/", None, "speed_up", "It is being signed at a higher price.", {"speed": "fastest"}),
    ],
)
def test_a_transaction_in_flight_is_replaced_by_its_lane(
    sender: Api, lane: Lane, method: str, ending: str, body: Any, action: str, reason: str, shown: dict[str, str]
) -> None:
    row = in_flight(lane)
    answer = sender(method, f"{path_of(row)}{ending}", body)
    row.refresh_from_db()
    expected = {**IN_FLIGHT, "status_reason": reason, **shown, **of_row(row)}
    assert (answer.status, answer.body) == (200, bodies.success(expected))
    assert (row.payload_version, row.requested_action) == (1 + (action == "replace"), action)
    # Sent again, it is not replaced again.
    assert sender(method, f"{path_of(row)}{ending}", body).body == answer.body


@pytest.mark.parametrize(
    ("stored", "body", "columns"),
    [
        ({"speed": "safeLow"}, {}, ("speed", "average", "", "", "")),
        ({"speed": "fastest"}, {}, ("speed", "fastest", "", "", "")),
        ({}, {"max_fee_per_gas": 9, "max_priority_fee_per_gas": "8"}, ("eip1559", "", "", "9", "8")),
        ({"pricing": "legacy", "speed": "", "gas_price_text": "0"}, {}, ("legacy", "", "1", "", "")),
        ({"pricing": "eip1559", "speed": "", **FEES}, {}, ("eip1559", "", "", "900", "90")),
        ({"pricing": "eip1559", "speed": "", **FEES}, {"speed": "fast"}, ("speed", "fast", "", "", "")),
    ],
)
def test_a_pending_transaction_gets_another_price(
    sender: Api, lane: Lane, stored: Any, body: Any, columns: tuple[str, ...]
) -> None:
    row = lanes.transaction(lane, **stored)
    assert sender.post(f"{path_of(row)}/speed-up", body).status == 200
    row.refresh_from_db()
    found = (row.pricing, row.speed, row.gas_price_text, row.max_fee_text, row.max_priority_fee_text)
    assert (found, row.requested_action, row.version) == (columns, "", 2)


@pytest.mark.parametrize(
    ("network", "policies", "prices", "columns"),
    [
        ("sepolia", {}, {"max_fee_text": "801", "max_priority_fee_text": "80"}, ("eip1559", "", "902", "90")),
        ("metis", {}, FEES, ("legacy", "900", "", "")),
        ("metis", {}, LEGACY, ("legacy", "900", "", "")),
        ("sepolia", {}, LEGACY, ("legacy", "900", "", "")),
        ("sepolia", {"eip1559_pricing": False}, FEES, ("eip1559", "", "900", "90")),
    ],
)
def test_explicit_prices_in_flight_rise_by_an_eighth(
    sender: Api, lane: Lane, network: str, policies: Any, prices: Any, columns: tuple[str, ...]
) -> None:
    """Even if the network, its description or the policies have changed since; not above the cap."""
    Relayer.objects.update(network=network, policies=policies | {"gas_price_cap": 899})
    row = in_flight(lane, prices, pricing="eip1559", speed="", **FEES)
    refused(
        sender.post(f"{path_of(row)}/speed-up", {}),
        "gas_price: must not be above the relayer's policy gas_price_cap, 899 wei",
    )
    Relayer.objects.update(policies=policies)
    answer = sender.post(f"{path_of(row)}/speed-up", {})
    assert answer.status == 200, answer.body
    row.refresh_from_db()
    assert (row.pricing, row.gas_price_text, row.max_fee_text, row.max_priority_fee_text) == columns
    assert row.requested_action == "speed_up"


@pytest.mark.parametrize(
    ("prices", "lower", "faults", "enough"),
    [
        (FEES, (899, 89), ["max_fee_per_gas: must be at least 900 wei",
                           "max_priority_fee_per_gas: must be at least 90 wei"], (900, 90)),
        ({"max_fee_text": "801", "max_priority_fee_text": "0"}, (901, 0),
         ["max_fee_per_gas: must be at least 902 wei", "max_priority_fee_per_gas: must be at least 1 wei"], (902, 1)),
        # The highest of all attempts counts.
        ({"max_fee_text": "1600", "max_priority_fee_text": "10"}, (1799, 90),
         ["max_fee_per_gas: must be at least 1800 wei"], (1800, 90)),
        (LEGACY, (899,), ["gas_price: must be at least 900 wei"], (900,)),
    ],
)  # fmt: skip
def test_explicit_prices_must_outbid_what_is_in_flight(
    sender: Api, lane: Lane, prices: Any, lower: tuple[int, ...], faults: list[str], enough: tuple[int, ...]
) -> None:
    row = in_flight(lane, prices)
    if lower[0] == 1799:
        lanes.attempt(row, **FEES)
    names = MAX_FEES if len(enough) == 2 else ("gas_price",)
    too_low, high = (dict(zip(names, amounts, strict=True)) for amounts in (lower, enough))
    for answer in (
        sender("PUT", path_of(row), {**TRANSFER, **too_low}),
        sender.post(f"{path_of(row)}/speed-up", too_low),
    ):
        refused(answer, *(f"{fault}, to replace the transaction in flight" for fault in faults))
    assert requested(row) == ("submitted", "", 1)
    assert sender.post(f"{path_of(row)}/speed-up", high).status == 200
    assert requested(row) == ("submitted", "speed_up", 2)
    assert sender("PUT", path_of(row), {**TRANSFER, **high}).status == 200
    assert requested(row) == ("submitted", "replace", 3)


@pytest.mark.parametrize(
    ("prices", "sent", "fault"),
    [
        (FEES, {"gas_price": 10_000},
         f"gas_price: the transaction in flight has maximum fees: send {' and '.join(MAX_FEES)}, or speed"),
        (LEGACY, {"max_fee_per_gas": 10_000, "max_priority_fee_per_gas": 10_000},
         "max_fee_per_gas: the transaction in flight has a gas price: send gas_price, or speed"),
    ],
)  # fmt: skip
def test_explicit_prices_have_the_type_of_what_is_in_flight(
    sender: Api, lane: Lane, prices: Any, sent: Any, fault: str
) -> None:
    row = in_flight(lane, prices)
    refused(sender("PUT", path_of(row), {**TRANSFER, **sent}), fault)
    refused(sender.post(f"{path_of(row)}/speed-up", sent), fault)


def test_replacements_and_prices_obey_the_policies(sender: Api, lane: Lane) -> None:
    assert lane.relayer is not None
    lane.relayer.policies = {"whitelist_receivers": [RECEIVER], "gas_price_cap": 1_000}
    lane.relayer.save()
    row = in_flight(lane)
    other = sender("PUT", path_of(row), {"to": factories.ADDRESS, "value": 1})
    assert other.status == 400
    assert other.body["metadata"]["logs"][0]["message"].startswith("to: ")
    cap = "max_fee_per_gas: must not be above the relayer's policy gas_price_cap, 1000 wei"
    fees = {"max_fee_per_gas": 1_001, "max_priority_fee_per_gas": 90}
    refused(sender("PUT", path_of(row), {**TRANSFER, **fees}), cap)
    refused(sender.post(f"{path_of(row)}/speed-up", fees), cap)
    assert requested(row) == ("submitted", "", 1)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"speed": "fast", "gas_price": 1}, "only one of gas_price, the two maximum fees and speed can be sent"),
        ({"value": 1}, "value: unknown field"),
    ],
)
def test_a_price_of_the_wrong_shape_is_refused(sender: Api, lane: Lane, body: Any, fault: str) -> None:
    refused(sender.post(f"{path_of(in_flight(lane))}/speed-up", body), fault)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": Status.MINED, "block_number": 12}, "It is mined, in block 12."),
        (lanes.final("canceled"), "Its status canceled is final."),
    ],
)
def test_what_is_mined_or_final_is_not_changed(sender: Api, lane: Lane, change: Any, reason: str) -> None:
    row = in_flight(lane)
    Transaction.objects.update(**change, mined_attempt=Attempt.objects.get())
    answers = [
        sender("DELETE", path_of(row)),
        sender("PUT", path_of(row), TRANSFER),
        sender.post(f"{path_of(row)}/speed-up", {}),
    ]
    assert [(answer.status, answer.body) for answer in answers] == [(409, bodies.failure(reason))] * 3
    assert {answer.headers["error-code"] for answer in answers} == {"not_changeable"}
    assert requested(row) == (change["status"], "", 1)


@pytest.mark.parametrize("change", [{"holds": HELD, "held_since": AT}, {"database_identity": "another server"}])
def test_a_relayer_that_is_held_or_about_to_be_replaces_nothing_and_cancels_later(
    sender: Api, lane: Lane, change: Any
) -> None:
    """After a failover, before the lane is held for it."""
    Lane.objects.update(**change)
    message = "The relayer is held: a transaction can be replaced when it is released."
    for row in (in_flight(lane), lanes.transaction(lane)):
        answer = sender("PUT", path_of(row), TRANSFER)
        assert (answer.status, answer.body) == (409, bodies.failure(message))
        assert sender.post(f"{path_of(row)}/speed-up", {}).status == 200
    answer = sender("DELETE", path_of(row))
    reason = "It will be closed without being sent: Its cancellation was requested."
    assert (answer.body["data"]["status"], answer.body["data"]["status_reason"]) == ("pending", reason)
    assert requested(row) == ("pending", "cancel", 3)


def test_a_paused_relayer_only_cancels(sender: Api, lane: Lane) -> None:
    row = in_flight(lane)
    assert lane.relayer is not None
    lane.relayer.paused = True
    lane.relayer.save()
    for answer in (sender("PUT", path_of(row), TRANSFER), sender.post(f"{path_of(row)}/speed-up", {})):
        assert (answer.status, answer.body) == (403, bodies.failure("Relayer paused"))
    assert sender("DELETE", path_of(row)).status == 200


def test_a_replacement_that_is_not_signed_yet_gets_another_price(sender: Api, lane: Lane) -> None:
    row = in_flight(lane)
    sender("PUT", path_of(row), {**TRANSFER, "value": 5, "speed": "safeLow"})
    assert sender.post(f"{path_of(row)}/speed-up", {"speed": "fastest"}).status == 200
    assert requested(row) == ("submitted", "replace", 3)
    assert (row.value_text, row.speed) == ("5", "fastest")


def test_a_cancellation_waits_for_staff_to_decide_about_a_transaction_on_the_chain(sender: Api, lane: Lane) -> None:
    found = lanes.transaction(lane, kind="external", nonce=3, status=Status.SUBMITTED)
    found.mined_attempt = lanes.attempt(found, purpose=Attempt.Purpose.EXTERNAL)
    found.save()
    Transaction.objects.update(**lanes.final("confirmed"), unclaimed_until=datetime(2100, 1, 1, tzinfo=UTC))
    row = lanes.transaction(lane)
    for answer in (sender("DELETE", path_of(row)), sender("PUT", path_of(row), {**TRANSFER, "value": 5})):
        assert answer.status == 409
        assert answer.body["message"].startswith("A transaction with this payload was found on the chain")
    assert requested(row) == ("pending", "", 1)


def test_all_pending_transactions_are_canceled(sender: Api, lane: Lane) -> None:
    pending, sent = lanes.transaction(lane), in_flight(lane)
    mined = in_flight(lane, nonce=6, status=Status.SENT)
    mined.status, mined.mined_attempt = Status.MINED, mined.last_attempt
    mined.save()
    lanes.transaction(lane, status=Status.SUBMITTED, nonce=5, kind="gap")
    answer = sender("DELETE", f"{PATH}/pending/")
    expected = {
        "queued_for_cancellation_transaction_ids": [pending.identifier, sent.identifier],
        "failed_to_queue_transaction_ids": [],
        "total_processed": 2,
    }
    assert (answer.status, answer.body) == (200, bodies.success(expected))
    assert [requested(row) for row in (pending, sent)] == [("canceled", "", 2), ("submitted", "cancel", 2)]
    assert requested(mined) == ("mined", "", 1)
    assert AuditEntry.objects.filter(reason__startswith="Cancellation requested by payments ").count() == 2
