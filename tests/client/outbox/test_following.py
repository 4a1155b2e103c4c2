"""Accepted rows are followed to their end, which is reported by a signal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from relayer_client import NO_RETRIES, Client
from relayer_client.outbox import follow_now, following
from relayer_client.outbox.claims import Claim
from relayer_client.outbox.following import follow, read
from relayer_client.outbox.models import OutboxTransaction, Status
from relayer_client.outbox.restores import Restores
from relayer_client.outbox.sending import run_once
from relayer_client.outbox.signals import transaction_finished, transaction_uncertain
from relayer_client.webhooks import Event
from tests.client.outbox.fake_service import NOT_FOUND, FakeService
from tests.client.outbox.rows import add, add_many, make_due, statuses
from tests.client.scripted_server import DROP, refused
from tests.concurrency import in_threads

Receiver = Callable[..., None]


@pytest.fixture
def connect() -> Iterator[Callable[[Receiver], None]]:
    """Connect a receiver to both signals until the end of the test."""
    connected: list[Receiver] = []

    def connect(receiver: Receiver) -> None:
        connected.append(receiver)
        for signal in (transaction_finished, transaction_uncertain):
            signal.connect(receiver, weak=False)

    yield connect
    for receiver in connected:
        for signal in (transaction_finished, transaction_uncertain):
            signal.disconnect(receiver)


def send(client: Client, count: int = 1) -> None:
    add_many(count)
    while run_once(client).has_more:
        pass
    make_due()


@pytest.mark.parametrize("status", ["confirmed", "failed", "expired", "canceled"])
def test_a_final_status_is_reported(
    outbox: None, fake: FakeService, client: Client, connect: Callable[[Receiver], None], status: str
) -> None:
    found: list[Any] = []
    connect(lambda transaction, **_: found.append((transaction.key, transaction.status, transaction.hash)))
    send(client)
    fake.finish(status)
    assert run_once(client).notified == 1
    assert found == [("payout-0", status, f"0x{'ab' * 32}")]
    row = OutboxTransaction.objects.get()
    assert (row.is_final, row.next_attempt_at, row.notified_at is not None) == (True, None, True)
    make_due()
    run_once(client)
    assert len(found) == 1


def test_an_uncertain_row_is_reported_by_its_signal(
    outbox: None, fake: FakeService, client: Client, connect: Callable[[Receiver], None]
) -> None:
    found: list[Any] = []
    connect(lambda signal, transaction, **_: found.append((signal is transaction_uncertain, transaction.status)))
    send(client)
    fake.accepted.clear()
    run_once(client)
    make_due()
    run_once(client)
    assert found == [(True, "uncertain")]
    # Staff find that it was paid.
    OutboxTransaction.objects.to_report().change(Status.CONFIRMED, "")
    run_once(client)
    assert found[1:] == [(False, "confirmed")]


def test_a_row_that_staff_resolve_is_not_reported_as_uncertain(
    outbox: None, client: Client, connect: Callable[[Receiver], None]
) -> None:
    found: list[str] = []
    add("payout-1")
    add("payout-2")
    OutboxTransaction.objects.update(status=Status.UNCERTAIN)

    def receive(transaction: OutboxTransaction, **_: Any) -> None:
        found.append(f"{transaction.key} {transaction.status}")
        OutboxTransaction.objects.filter(key="payout-2").change(Status.CONFIRMED, "")

    connect(receive)
    run_once(client)
    run_once(client)
    assert found == ["payout-1 uncertain", "payout-2 confirmed"]


def test_a_status_on_the_way_is_stored_and_not_reported(outbox: None, fake: FakeService, client: Client) -> None:
    send(client)
    fake.finish("submitted")
    assert run_once(client).notified == 0
    row = OutboxTransaction.objects.get()
    assert (row.status, row.hash, row.status_reason, row.notified_at) == ("submitted", f"0x{'ab' * 32}", "", None)
    fake.finish("of a later service")
    make_due()
    run_once(client)
    assert statuses() == {"payout-0": "of a later service"}


def test_many_are_read_with_one_request_and_few_statements(outbox: None, fake: FakeService, client: Client) -> None:
    send(client, 50)
    fake.finish("mined")
    before = len(fake.requests)
    with CaptureQueriesContext(connection) as queries:
        rows = OutboxTransaction.objects.writable()
        follow(client, rows, Restores(rows.db))
    assert {*statuses().values()} == {"mined"}
    assert len(fake.requests) - before == 1
    assert len(queries) <= 8


def test_a_transaction_that_the_service_no_longer_has_is_uncertain(
    outbox: None, fake: FakeService, client: Client
) -> None:
    send(client)
    fake.accepted.clear()
    hold = run_once(client).hold
    row = OutboxTransaction.objects.get()
    assert row.status == "uncertain"
    for reason in (row.status_reason, hold):
        assert "restored" in reason
        assert "TRANSACTIONS_KEEP_DAYS" in reason


def test_an_accepted_row_of_a_missing_relayer_is_uncertain(outbox: None, fake: FakeService, client: Client) -> None:
    send(client)
    fake.refusal = lambda request: NOT_FOUND
    run_once(client)
    row = OutboxTransaction.objects.get()
    assert (row.status, row.status_reason) == ("uncertain", "Refused (404, not_found) Check how it ended.")


def test_a_relayer_that_the_token_cannot_read_is_not_missing(outbox: None, fake: FakeService, client: Client) -> None:
    send(client)
    fake.refusal = lambda request: NOT_FOUND if request.method == "GET" else refused(403, "token_limited")
    run_once(client)
    row = OutboxTransaction.objects.get()
    assert (row.status, row.status_reason) == ("pending", "Its status cannot be read. Refused (404, not_found)")


@pytest.mark.parametrize(
    "answer", [refused(404, "unknown_path"), refused(401, "authentication_failed"), DROP], ids=str
)
@pytest.mark.parametrize("count", [1, 12])
def test_a_relayer_that_cannot_be_read_is_read_later(
    outbox: None, fake: FakeService, client: Client, answer: Any, count: int
) -> None:
    send(client, count)
    fake.refusal = lambda request: answer
    fake.finish()
    run_once(client)
    assert {*statuses().values()} == {"pending"}
    fake.refusal = lambda request: None
    make_due()
    run_once(client)
    assert {*statuses().values()} == {"confirmed"}


def test_a_token_that_cannot_be_read_leaves_no_row_in_doubt(outbox: None, fake: FakeService, client: Client) -> None:
    send(client, 2)
    with Client(fake.url, lambda: "", retries=NO_RETRIES) as other:
        run_once(other)
        assert {*statuses().values()} == {"pending"}
        row = add("payout-2")
        run_once(other)
    row.refresh_from_db()
    assert (row.status, row.unanswered_since) == ("queued", None)


class BrokenAuth(httpx.Auth):
    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]  # it yields none
        yield json.loads("<html>")


def test_a_fault_of_the_callers_httpx_client_is_none_of_a_row(outbox: None, fake: FakeService, client: Client) -> None:
    send(client)
    rows = OutboxTransaction.objects.writable()
    with httpx.Client(auth=BrokenAuth()) as http, pytest.raises(json.JSONDecodeError):
        follow(Client(fake.url, "t", http=http), rows, Restores(rows.db))
    assert statuses() == {"payout-0": "pending"}


def test_what_is_read_is_saved_before_others_take_over(
    outbox: None, fake: FakeService, client: Client, monkeypatch: Any
) -> None:
    for number in range(3):
        add(str(number), relayer=f"r{number}")
    run_once(client)
    fake.finish("mined")
    make_due()
    # The lease is half over as soon as one relayer is read.
    found: list[Any] = []

    def read_one(*given: Any) -> Any:
        found.append(read(*given))
        return found[-1]

    monkeypatch.setattr(following, "read", read_one)
    monkeypatch.setattr(Claim, "is_late", property(lambda _: bool(found)))
    run_once(client)
    assert sorted(statuses().values()) == ["mined", "pending", "pending"]
    assert OutboxTransaction.objects.due().count() == 2


def test_a_relayer_with_many_rows_is_read_in_parts(
    outbox: None, fake: FakeService, client: Client, monkeypatch: Any
) -> None:
    send(client, 5)
    fake.finish("mined")
    read_before = len(fake.requests) + 2
    monkeypatch.setattr(Claim, "is_late", property(lambda _: len(fake.requests) >= read_before))
    run_once(client)
    assert sorted(statuses().values()) == ["mined"] * 2 + ["pending"] * 3
    assert OutboxTransaction.objects.due().count() == 3


def test_a_webhook_makes_a_row_due(outbox: None, fake: FakeService, client: Client) -> None:
    add("payout-1")
    run_once(client)
    fake.finish()
    run_once(client)
    assert statuses() == {"payout-1": "pending"}
    data = {"id": OutboxTransaction.objects.get().transaction_id}
    before = OutboxTransaction.objects.get().next_attempt_at
    for type_, found in (("notification.test", ""), ("notification.test", data["id"]), ("transaction.mined", "")):
        follow_now(Event(id="msg_1", type=type_, timestamp=datetime.now(UTC), data={"id": found}))
    assert OutboxTransaction.objects.get().next_attempt_at == before
    follow_now(Event(id="msg_1", type="transaction.confirmed", timestamp=datetime.now(UTC), data=data))
    run_once(client)
    assert statuses() == {"payout-1": "confirmed"}


def test_a_receiver_that_raises_is_rolled_back_and_called_again(
    outbox: None, fake: FakeService, client: Client, connect: Callable[[Receiver], None]
) -> None:
    failures = iter([ZeroDivisionError])

    def receive(transaction: OutboxTransaction, **_: Any) -> None:
        Group.objects.create(name=f"paid {transaction.key}")
        if transaction.key == "payout-0":
            for failure in failures:
                raise failure

    connect(receive)
    send(client, 2)
    fake.finish()
    assert run_once(client).notified == 1
    assert {*Group.objects.filter(name__startswith="paid").values_list("name", flat=True)} == {"paid payout-1"}
    assert OutboxTransaction.objects.get(key="payout-0").notified_at is None
    make_due()
    assert run_once(client).notified == 1
    assert Group.objects.filter(name__startswith="paid").count() == 2


def test_two_senders_report_each_row_once(
    shared_outbox: None, fake: FakeService, client: Client, connect: Callable[[Receiver], None]
) -> None:
    found: list[str] = []
    in_transaction: list[bool] = []

    def receive(transaction: OutboxTransaction, **_: Any) -> None:
        found.append(transaction.key)
        # What a receiver writes is committed with the notification.
        in_transaction.append(connection.in_atomic_block)

    connect(receive)
    send(client, 20)
    fake.finish()

    def run() -> None:
        with Client(fake.url, "a-token", retries=NO_RETRIES) as own:
            for _ in range(3):
                run_once(own)

    in_threads(run, run)
    assert sorted(found) == sorted(statuses())
    assert {*in_transaction} == {True}
    assert {*statuses().values()} == {"confirmed"}


def test_a_row_that_another_sender_reports_is_not_reported(
    outbox: None, fake: FakeService, client: Client, connect: Callable[[Receiver], None]
) -> None:
    found: list[str] = []

    def receive(transaction: OutboxTransaction, **_: Any) -> None:
        # The lease of this batch ends meanwhile, and another sender reports the rest.
        found.append(transaction.key)
        if len(found) == 1:
            make_due()
            run_once(client)

    connect(receive)
    send(client, 3)
    fake.finish()
    run_once(client)
    assert sorted(found) == ["payout-0", "payout-1", "payout-2"]
