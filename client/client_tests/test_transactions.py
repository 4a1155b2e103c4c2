"""Transactions as both services have them, the fake and a real one."""

import time
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from client_tests.bench import Bench
from relayer_client import Transaction, errors
from relayer_client.fields import SendingFields

RECEIVER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
# Of a transfer at the market price, which the fake has none of.
ALWAYS = {"contract_address", "gas_price", "data", "external_id"}
PRICES = {"max_fee_per_gas", "max_priority_fee_per_gas"}
NOT_MINED = {"block_number", "gas_used", "effective_gas_price", "confirmed_at"}
NOT_SENT = {"hash", "nonce", "signature", "sent_at", "gas_limit"}


def empty(transaction: Transaction) -> set[str]:
    """Return the fields without a value."""
    return {name for name, value in asdict(transaction).items() if value is None} - PRICES


def wait_for_another_hash(bench: Bench, transaction: Transaction) -> None:
    deadline = time.monotonic() + 180
    while bench.relayer.get_transaction(transaction).hash == transaction.hash:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_key_returns_its_transaction_and_refuses_another_body(bench: Bench) -> None:
    key = str(uuid4())
    first = bench.relayer.send(to=RECEIVER.lower(), value="7", data=b"\x01", idempotency_key=key)
    assert (first.status, first.to, first.value, first.data, first.data_size) == ("pending", RECEIVER, 7, "0x01", 1)
    assert (first.speed, first.valid_until - first.created_at) == ("fast", timedelta(hours=8))
    bench.move(first, "confirmed")
    again = bench.relayer.send(data=b"\x01", to=RECEIVER.lower(), value="7", idempotency_key=key)
    assert (again.id, again.status) == (first.id, "confirmed")
    for value in (7, "8"):
        with pytest.raises(errors.IdempotencyKeyReused) as raised:
            bench.relayer.send(to=RECEIVER.lower(), value=value, data=b"\x01", idempotency_key=key)
        message = "The Idempotency-Key was already used with a different body"
        error = raised.value
        assert (error.status, error.code, error.message) == (409, "idempotency_key_reused", message)


def test_labels_are_returned_and_kept(bench: Bench) -> None:
    labels: SendingFields = {"external_id": "Zoë 1", "metadata": {"b": "€", "a": ""}}
    sent = bench.relayer.send(to=RECEIVER, value=1, **labels)
    assert (sent.external_id, sent.metadata) == ("Zoë 1", {"a": "", "b": "€"})
    assert bench.relayer.replace(sent, to=RECEIVER, value=2).metadata == sent.metadata
    assert bench.relayer.send(to=RECEIVER, value=1).metadata == {}
    assert sent in {sent}


def test_a_lost_response_neither_loses_nor_doubles_a_transaction(bench: Bench) -> None:
    before = bench.relayer.list_transactions().total()
    bench.lose_response()
    sent = bench.relayer.send(to=RECEIVER, value=1)
    assert before is not None
    assert bench.relayer.list_transactions().total() == before + 1
    # The real one sends meanwhile.
    (newest, *_) = bench.relayer.list_transactions().to_list()
    assert newest.id == sent.id


def test_a_transaction_has_the_fields_of_its_status(bench: Bench) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    sent = bench.relayer.send(to=RECEIVER, value=1, valid_until=until)
    assert (empty(sent), sent.valid_until, sent.is_canceled) == (ALWAYS | NOT_MINED | NOT_SENT, until, False)
    bench.move(sent, "submitted")
    found = bench.relayer.get_transaction(sent)
    assert empty(found) - {"status_reason"} == ALWAYS | NOT_MINED
    assert found.version > sent.version
    assert [found] == bench.relayer.list_transactions(hash=found.hash).to_list()
    bench.move(sent, "confirmed")
    done = bench.relayer.wait(sent)
    assert empty(done) == ALWAYS | {"status_reason"}
    assert (done.hash, done.nonce, done.version > found.version) == (found.hash, found.nonce, True)
    assert done in bench.relayer.list_transactions(status="confirmed")
    created = bench.relayer.send(data="0x00", gas_limit=100_000, max_fee_per_gas=10**10, max_priority_fee_per_gas=1)
    bench.move(created, "confirmed")
    created = bench.relayer.wait(created)
    assert (created.nonce, created.to, created.gas_limit) == ((done.nonce or 0) + 1, None, 100_000)
    assert created.contract_address is not None
    assert (created.speed, created.max_fee_per_gas, created.max_priority_fee_per_gas) == (None, 10**10, 1)


def test_a_transaction_in_flight_is_replaced_sped_up_and_canceled(bench: Bench) -> None:
    sent = [bench.relayer.send(to=RECEIVER, value=value) for value in range(3)]
    for each in sent:
        bench.move(each, "submitted")
    one, two, three = (bench.relayer.get_transaction(each) for each in sent)
    assert bench.relayer.replace(one, to=RECEIVER, value=10).value == 10
    bench.relayer.speed_up(two)
    assert bench.relayer.cancel(three).is_canceled
    for each in (one, two, three):
        wait_for_another_hash(bench, each)
        bench.move(each, "submitted")
        # Also by the hash of an earlier attempt.
        assert [found.id for found in bench.relayer.list_transactions(hash=each.hash)] == [each.id]
    for each, status in ((one, "confirmed"), (two, "confirmed"), (three, "canceled")):
        bench.move(each, status)  # type: ignore[arg-type]  # literals in a tuple are strings
    final = bench.relayer.wait_all(sent, "final")
    assert [(each.status, each.value, each.is_canceled) for each in final] == [
        ("confirmed", 10, False),
        ("confirmed", 1, False),
        ("canceled", 2, True),
    ]
    assert empty(final[2]) == ALWAYS | {"confirmed_at"}
    with pytest.raises(errors.TransactionCanceled):
        bench.relayer.wait(three)
    for call in (bench.relayer.cancel, bench.relayer.speed_up, lambda one: bench.relayer.replace(one, to=RECEIVER)):
        with pytest.raises(errors.NotChangeable) as raised:
            call(final[0])
        assert (raised.value.status, raised.value.code) == (409, "not_changeable")
    assert bench.relayer.cancel_all().total_processed == 0


def test_all_open_transactions_are_canceled(bench: Bench) -> None:
    sent = bench.relayer.send(to=RECEIVER, value=1)
    result = bench.relayer.cancel_all(reason="A test.")
    ids, failed = result.queued_for_cancellation_transaction_ids, result.failed_to_queue_transaction_ids
    assert (ids, failed, result.total_processed) == ((sent.id,), (), 1)
    assert bench.relayer.get_transaction(sent).is_canceled


def test_lists_are_filtered(bench: Bench) -> None:
    key = str(uuid4())
    sent = bench.relayer.send(
        to=RECEIVER, value=1, idempotency_key=key, external_id=key, metadata={"order": f"a:{key}"}
    )
    bench.move(sent, "submitted")
    find = bench.relayer.list_transactions
    assert find(to="0x" + "11" * 20).first() is None
    for found in (find(idempotency_key=key), find(external_id=key), find(metadata=f"order:a:{key}")):
        assert [each.id for each in found] == [sent.id]
    assert sent.id in [each.id for each in find(to=RECEIVER.lower())]
    nonce = bench.relayer.get_transaction(sent).nonce
    assert nonce is not None
    assert bench.relayer.get_transaction_by_nonce(nonce).id == sent.id
    with pytest.raises(errors.NotFound, match=f"Transaction with nonce {10**9} not found"):
        bench.relayer.get_transaction_by_nonce(10**9)


def test_a_transaction_that_does_not_exist_is_not_found(bench: Bench) -> None:
    unknown = str(uuid4())
    with pytest.raises(errors.NotFound) as raised:
        bench.relayer.get_transaction(unknown)
    assert (raised.value.code, raised.value.message) == ("not_found", f"Transaction with ID {unknown} not found")


def test_a_dry_run_sends_nothing(bench: Bench) -> None:
    before = bench.relayer.list_transactions().total()
    assert bench.relayer.dry_run(to=RECEIVER, value=1).allowed
    assert bench.relayer.list_transactions().total() == before
    assert bench.relayer.client.health()
