"""`cancel` ends rows that were never handed over, `retry` queues those that certainly were not accepted."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from relayer_client import NO_RETRIES, Client
from relayer_client.outbox import cancel, retry
from relayer_client.outbox.handing_over import HandOver
from relayer_client.outbox.models import OutboxTransaction, StatusConflict
from relayer_client.outbox.restores import Restores
from relayer_client.outbox.sending import run_once
from tests.client.outbox.fake_service import FakeService
from tests.client.outbox.rows import add, add_many, make_due, statuses
from tests.client.scripted_server import DROP, refused
from tests.concurrency import in_threads


def test_a_row_that_was_never_handed_over_is_canceled(outbox: None, fake: FakeService, client: Client) -> None:
    add("payout-1")
    fake.refusal = lambda request: refused(403, "relayer_paused") if request.method == "POST" else None
    run_once(client)
    fake.refusal = lambda request: None
    assert cancel("payout-1").status == "canceled"
    make_due()
    assert (run_once(client).notified, len(fake.accepted)) == (1, 0)
    with pytest.raises(OutboxTransaction.DoesNotExist):
        cancel("payout-2")


def test_a_row_that_may_have_been_handed_over_is_not_canceled(outbox: None, fake: FakeService, client: Client) -> None:
    add("payout-1")
    sender = HandOver(client, OutboxTransaction.objects.writable(), Restores("default"))
    with pytest.raises(StatusConflict, match="payout-1 is queued"):
        cancel("payout-1")
    fake.loss = lambda request: DROP if request.method == "POST" else None
    sender.run(lambda: False)
    with pytest.raises(StatusConflict):
        cancel("payout-1")
    fake.loss = lambda request: None
    make_due()
    run_once(client)
    with pytest.raises(StatusConflict, match="payout-1 is pending"):
        cancel("payout-1")


def test_a_row_is_either_canceled_or_handed_over(shared_outbox: None, fake: FakeService) -> None:
    rows = add_many(60)
    # Each has begun before the other one goes on, however fast it is.
    started = threading.Barrier(2)

    def send() -> None:
        with Client(fake.url, "a-token", retries=NO_RETRIES) as client:
            run_once(client)
            started.wait(60)
            while run_once(client).accepted:
                pass

    def cancel_some() -> None:
        cancel(rows[-1].key)
        started.wait(60)
        for row in reversed(rows[:-1]):
            try:
                cancel(row.key)
            except StatusConflict:
                continue

    in_threads(send, cancel_some)
    make_due()
    with Client(fake.url, "a-token", retries=NO_RETRIES) as client:
        run_once(client)
    accepted = {row.key for row in rows if str(row.idempotency_key) in fake.accepted}
    assert statuses() == {row.key: "pending" if row.key in accepted else "canceled" for row in rows}
    assert 0 < len(accepted) < 60


def test_a_rejected_row_is_tried_again_under_its_key(outbox: None, fake: FakeService, client: Client) -> None:
    row = add("payout-1")
    fake.refusal = lambda request: refused(404, "not_found") if request.method == "POST" else None
    run_once(client)
    fake.refusal = lambda request: None
    assert statuses() == {"payout-1": "failed"}
    assert retry("payout-1").status == "queued"
    run_once(client)
    assert (statuses(), [*fake.accepted]) == ({"payout-1": "pending"}, [str(row.idempotency_key)])


@pytest.mark.parametrize(
    "values",
    [
        {"status": "failed", "transaction_id": "an ID"},
        # By staff, of one that had no answer.
        {"status": "failed", "unanswered_since": "2026-11-17T12:00Z"},
        *({"status": status} for status in ("queued", "pending", "confirmed", "canceled", "expired", "uncertain")),
    ],
    ids=lambda values: " ".join(values.values()),
)
def test_what_may_have_been_accepted_is_not_tried_again(outbox: None, values: dict[str, Any]) -> None:
    add("payout-1")
    OutboxTransaction.objects.update(**values)
    with pytest.raises(StatusConflict, match=f"payout-1 is {values['status']}"):
        retry("payout-1")
    assert statuses() == {"payout-1": values["status"]}
