"""A transaction is stored with the rows of its caller, once per key."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.transaction import TransactionManagementError

from relayer_client.outbox import enqueue
from relayer_client.outbox.models import KeyReused, OutboxTransaction
from tests.client.outbox.rows import RECEIVER, add
from tests.concurrency import in_threads


def test_outside_of_a_transaction_it_is_an_error(shared_outbox: None) -> None:
    with pytest.raises(TransactionManagementError, match="outside of a transaction"):
        enqueue("sender", to=RECEIVER, key="payout-1")
    assert not OutboxTransaction.objects.exists()


def test_both_rows_are_committed_or_none(shared_outbox: None) -> None:
    def pay(name: str) -> None:
        with transaction.atomic():
            User.objects.create(username=name)
            enqueue("sender", to=RECEIVER, key=name)
            if name == "bad":
                raise ZeroDivisionError

    pay("good")
    with pytest.raises(ZeroDivisionError):
        pay("bad")
    assert [*OutboxTransaction.objects.values_list("key", flat=True)] == ["good"]
    assert [*User.objects.values_list("username", flat=True)] == ["good"]


def test_the_same_call_again_returns_the_same_row(outbox: None) -> None:
    first = add("payout-1", data=b"\xab", speed="fast")
    again = add("payout-1", to=RECEIVER.lower(), data="0xAB", speed="fast")
    assert (again.pk, again.idempotency_key) == (first.pk, first.idempotency_key)
    assert OutboxTransaction.objects.count() == 1


def test_another_content_with_the_same_key_is_an_error(outbox: None) -> None:
    add("payout-1")
    changes: dict[str, Any] = {"relayer": "other", "to": f"0x{'11' * 20}", "value": 2, "data": "0x00", "speed": "fast"}
    for name, value in changes.items():
        with pytest.raises(KeyReused, match="payout-1"):
            add("payout-1", **{name: value})


def test_concurrent_calls_with_one_key_store_one_row(shared_outbox: None) -> None:
    found = in_threads(*[lambda: add("payout-1").pk] * 4)
    assert len(set(found)) == 1
    assert OutboxTransaction.objects.count() == 1


def test_a_wrong_value_is_an_error_at_once(outbox: None) -> None:
    cases: list[tuple[str, Any]] = [("to", "0x12"), ("value", -1), ("value", 1.5), ("data", "0xabc"), ("data", "ab")]
    cases += [("value", 2**256), ("gas_limit", "0x8000000000000000"), ("gas_price", "1.5"), ("gas_price", True)]
    cases += [("to", RECEIVER.replace("C", "c")), ("speed", "fastt"), ("max_fee_per_gas", 1)]
    cases += [("valid_until", "tomorrow")]
    for name, value in cases:
        with pytest.raises(ValidationError) as raised:
            add("payout-1", **{name: value})
        assert [*raised.value.message_dict] == [name]
    wrong: list[tuple[str, dict[str, Any]]] = [
        # It would create a contract.
        ("to", {"to": "", "data": "0x00"}),
        ("data", {"to": None, "data": b""}),
        ("speed", {"speed": "fast", "gas_price": 1}),
        ("max_priority_fee_per_gas", {"max_fee_per_gas": "9", "max_priority_fee_per_gas": "0xa"}),
    ]
    for name, values in wrong:
        with pytest.raises(ValidationError, match=name):
            add("payout-1", **values)
    for key, address in enumerate((RECEIVER, RECEIVER.lower(), f"0x{RECEIVER[2:].upper()}")):
        add(str(key), to=address, value=hex(2**256 - 1), max_fee_per_gas=2, max_priority_fee_per_gas="1")


def test_a_relayer_that_has_no_path_and_an_unknown_field_are_errors_at_once(outbox: None) -> None:
    for relayer in ("", ".", "..", "a/../b", "a/", "a/rpc"):
        with pytest.raises(ValidationError, match="relayer"):
            enqueue(relayer, to=RECEIVER, key="payout-1")
    with pytest.raises(TypeError, match="Unknown field: gas"):
        add("payout-1", gas=1)


def test_labels_are_sent_as_they_were_enqueued(outbox: None) -> None:
    labels: dict[str, Any] = {"external_id": " Zoë №1", "metadata": {"b": "", "a.B-9_": "€" * 500, "c": "x" * 500}}
    assert add("payout-1", **labels).fields() == {"to": RECEIVER, "value": "1", **labels}
    assert add("payout-1", **labels).pk == OutboxTransaction.objects.get().pk
    with pytest.raises(KeyReused):
        add("payout-1", external_id=labels["external_id"], metadata={})
    wrong: list[tuple[str, Any]] = [("external_id", text) for text in ("", "x" * 256, "a\0", "\ud800")]
    pairs: list[dict[str, Any]] = [{key: "x"} for key in ("", "a:b", "ä", "x" * 41)] + [
        {"a": text} for text in (1, "\0", "x" * 501)
    ]
    too_many = {str(number): "x" for number in range(17)}
    wrong += [("metadata", value) for value in ("x", *pairs, too_many, {**labels["metadata"], "d": "x" * 50})]
    for name, value in wrong:
        with pytest.raises(ValidationError) as raised:
            add("payout-2", **{name: value})
        assert [*raised.value.message_dict] == [name]


def test_amounts_of_any_size_and_times_are_stored_exactly(outbox: None) -> None:
    end = datetime(2026, 11, 17, 12, tzinfo=UTC)
    row = add("payout-1", value=2**255 + 1, gas_price=2**200 + 1, gas_limit=None, valid_until=end)
    row.refresh_from_db()
    assert row.fields() == {
        "to": RECEIVER,
        "value": str(2**255 + 1),
        "gas_price": str(2**200 + 1),
        "valid_until": "2026-11-17T12:00:00+00:00",
    }
