"""Queued rows are handed over once each, in order, whatever the service answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from relayer_client import NO_RETRIES, Client, Retries
from relayer_client.errors import TooManyRequests
from relayer_client.outbox.claims import Claim
from relayer_client.outbox.handing_over import REPEAT_LIMIT, HandOver
from relayer_client.outbox.models import OutboxTransaction
from relayer_client.outbox.pauses import poll_pause, retry_pause
from relayer_client.outbox.restores import Restores
from relayer_client.outbox.sending import run_once
from tests.client.outbox.fake_service import FakeService
from tests.client.outbox.rows import RECEIVER, add, add_many, make_due, statuses
from tests.client.scripted_server import DROP, Answer, refused
from tests.concurrency import in_threads

QUEUED = {"payout-0": "queued", "payout-1": "queued", "payout-2": "queued"}
ACCEPTED = {"payout-0": "pending", "payout-1": "pending", "payout-2": "pending"}


def answer_sends(fake: FakeService, answer: Answer, count: int = 1000, value: str | None = None) -> None:
    """Refuse the next requests to send, or those with a value."""
    left = iter(range(count))
    fake.refusal = lambda request: (
        answer
        if request.method == "POST"
        and (value is None or f'"value":"{value}"'.encode() in request.body)
        and next(left, None) is not None
        else None
    )


def hand_over(client: Client) -> HandOver:
    """Claim rows, which `run` sends."""
    rows = OutboxTransaction.objects.writable()
    return HandOver(client, rows, Restores(rows.db))


def doubts() -> set[str]:
    return {*OutboxTransaction.objects.exclude(unanswered_since=None).values_list("key", flat=True)}


def test_a_row_is_accepted_under_its_stored_key(outbox: None, fake: FakeService, client: Client) -> None:
    row = add("first", data="0xab", speed="fast")
    progress = run_once(client)
    row.refresh_from_db()
    assert (progress.accepted, progress.failure, progress.has_more) == (1, None, False)
    assert fake.posts == [{"to": RECEIVER, "value": "1", "data": "0xab", "speed": "fast"}]
    stored = fake.accepted[str(row.idempotency_key)]
    assert (row.transaction_id, row.status, row.status_reason) == (stored["id"], "pending", stored["status_reason"])
    assert (row.claim, row.unanswered_since) == (None, None)
    # Others follow in their order.
    add_many(12)
    run_once(client)
    assert [each["value"] for each in fake.posts[1:]] == [str(number) for number in range(12)]


def test_statements_per_row_are_one(outbox: None, fake: FakeService, client: Client) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            hand_over(client).run(lambda: False)
        return len(queries)

    none = count()
    add("first")
    one = count()
    add_many(20)
    assert (none <= 4, one <= 7, count()) == (True, True, one + 19)


def test_a_rejected_row_fails_and_holds_up_no_other(outbox: None, fake: FakeService, client: Client) -> None:
    add_many(3)
    fault = {"level": "log", "message": "to: not in whitelist_receivers", "code": "not_allowed"}
    body = {"data": None, "message": "Bad Request", "success": False, "metadata": {"logs": [fault]}}
    answer_sends(fake, Answer(400, body, {"Error-Code": "not_allowed"}), value="1")
    run_once(client)
    assert statuses() == ACCEPTED | {"payout-1": "failed"}
    failed = OutboxTransaction.objects.get(key="payout-1")
    assert failed.status_reason == "Bad Request (400, not_allowed): to: not in whitelist_receivers"
    assert failed.notified_at is not None
    add("payout-3", value=3)
    answer_sends(fake, refused(403, "spending_refused", "Refused"), value="3")
    add("payout-4")
    for _ in range(2):
        run_once(client)
        make_due()
    assert {key: status for key, status in statuses().items() if key > "payout-2"} == {
        "payout-3": "queued",
        "payout-4": "pending",
    }
    row = OutboxTransaction.objects.get(key="payout-3")
    assert (row.attempts, row.status_reason) == (2, "Refused (403, spending_refused)")


@pytest.mark.parametrize(
    "answer",
    [
        *(refused(401, "authentication_failed"), refused(403, "insufficient_scope"), refused(404, "unknown_path")),
        *(refused(400, "https_required"), refused(429, "throttled", Retry_After="7"), refused(500, "internal_error")),
        *(refused(503, "database_unavailable"), DROP, *(Answer(status, b"of a proxy") for status in (200, 400, 502))),
        *(Answer(200, {"status": "JSON of a proxy"}), Answer(200, {"data": {"id": "a transaction with too little"}})),
    ],
    ids=lambda answer: f"{answer.status} {answer.headers.get('Error-Code', '')}",
)
def test_what_may_succeed_later_stays_queued(outbox: None, fake: FakeService, client: Client, answer: Answer) -> None:
    add_many(3)
    answer_sends(fake, answer)
    run_once(client)
    assert statuses() == QUEUED
    # The others would fail for the same reason.
    assert len(fake.posts) == 1
    fake.refusal = lambda request: None
    make_due()
    run_once(client)
    assert statuses() == ACCEPTED
    assert len(fake.accepted) == 3


@pytest.mark.parametrize(
    ("answer", "in_doubt"),
    [
        *((refused(status, "some_code"), set()) for status in (401, 403, 429)),
        (refused(503, "nodes_unavailable"), set()),
        (refused(503, "database_unavailable"), {"payout-0"}),
        *((answer, {"payout-0"}) for answer in (refused(500, "internal_error"), Answer(504, b""), DROP)),
        (Answer(200, {"error": {"code": 504, "message": "Gateway Timeout"}}), {"payout-0"}),
    ],
    ids=lambda value: str(getattr(value, "status", "")),
)
def test_only_a_request_without_an_answer_leaves_a_doubt(
    outbox: None, fake: FakeService, client: Client, answer: Answer, in_doubt: set[str]
) -> None:
    add_many(3)
    answer_sends(fake, answer)
    run_once(client)
    assert doubts() == in_doubt


@pytest.mark.parametrize(
    "answer",
    [
        *(refused(403, "relayer_paused"), refused(403, "permission_denied"), refused(404, "unknown_path")),
        *(refused(409, "account_unknown"), refused(429, "queue_full")),
    ],
    ids=lambda answer: answer.headers["Error-Code"],
)
def test_a_relayer_that_refuses_holds_up_no_other(
    outbox: None, fake: FakeService, client: Client, answer: Answer
) -> None:
    add_many(3)
    add("other", relayer="other")
    fake.refusal = lambda request: answer if request.method == "POST" and "/sender/" in request.path else None
    run_once(client)
    assert statuses() == QUEUED | {"other": "pending"}
    assert len(fake.posts) == 2
    add("another", relayer="other")
    run_once(client)
    assert statuses()["another"] == "pending"
    assert len(fake.posts) == 3


def test_all_rows_of_a_relayer_that_refuses_wait(
    outbox: None, fake: FakeService, client: Client, monkeypatch: Any
) -> None:
    monkeypatch.setattr("relayer_client.outbox.handing_over.BATCH_ROWS", 2)
    add_many(3)
    add("other", relayer="other")
    fake.refusal = lambda request: refused(403, "relayer_paused") if "/sender/" in request.path else None
    # More rows than a batch are reported.
    assert [run_once(client).has_more for _ in range(2)] == [True, False]
    assert statuses() == QUEUED | {"other": "pending"}
    assert len(fake.posts) == 2
    assert not Claim(OutboxTransaction.objects.queued(), 2).rows


def test_pauses_grow_and_respect_the_service() -> None:
    pauses = [retry_pause(attempts).total_seconds() for attempts in (0, 1, 2, 8, 9, 100_000)]
    assert pauses == [1, 2, 4, 256, 300, 300]
    assert retry_pause(2, TooManyRequests(status=429, code=None, message="", retry_after=99)).total_seconds() == 99
    assert [poll_pause(attempts).total_seconds() for attempts in (0, 1, 100_000)] == [1, 1.5, 30]


def test_a_lost_answer_is_repeated_with_the_same_key_and_body(outbox: None, fake: FakeService, client: Client) -> None:
    row = add("payout-1")
    losses = iter([DROP])
    fake.loss = lambda request: next(losses, None) if request.method == "POST" else None
    run_once(client)
    assert statuses() == {"payout-1": "queued"}
    # The key is remembered for so long.
    since(REPEAT_LIMIT - timedelta(minutes=1))
    make_due()
    run_once(client)
    assert statuses() == {"payout-1": "pending"}
    first, again = (each for each in fake.requests if each.method == "POST")
    assert first.body == again.body
    assert first.headers["idempotency-key"] == again.headers["idempotency-key"] == str(row.idempotency_key)
    assert len(fake.accepted) == 1
    assert doubts() == set()


def since(age: timedelta) -> None:
    OutboxTransaction.objects.exclude(unanswered_since=None).update(unanswered_since=timezone.now() - age)


def test_a_key_that_may_be_forgotten_is_not_sent_again(outbox: None, fake: FakeService, client: Client) -> None:
    add("payout-1")
    fake.loss = lambda request: DROP if request.method == "POST" else None
    run_once(client)
    fake.accepted.clear()
    since(REPEAT_LIMIT + timedelta(seconds=1))
    make_due()
    run_once(client)
    row = OutboxTransaction.objects.get()
    assert row.status == "uncertain"
    assert "Check whether it was sent" in row.status_reason
    make_due()
    run_once(client)
    assert len(fake.posts) == 1


def test_a_refusal_does_not_remove_an_earlier_doubt(outbox: None, fake: FakeService, client: Client) -> None:
    add("payout-0")
    fake.loss = lambda request: DROP if request.method == "POST" else None
    run_once(client)
    add("payout-1")
    make_due()
    answer_sends(fake, refused(403, "relayer_paused"))
    run_once(client)
    assert doubts() == {"payout-0"}


@pytest.mark.parametrize("answer", [Answer(502, b""), refused(503, "database_unavailable"), DROP], ids=str)
def test_an_outage_of_days_leaves_no_row_in_doubt(
    outbox: None, fake: FakeService, client: Client, answer: Answer
) -> None:
    add_many(3)
    fake.refusal = lambda request: answer
    assert run_once(client).failure is not None
    assert (fake.posts, doubts(), len(fake.requests)) == ([], set(), 1)
    fake.refusal = lambda request: None
    make_due()
    run_once(client)
    assert statuses() == ACCEPTED


def test_a_key_with_another_body_is_never_reported_as_failed(outbox: None, fake: FakeService, client: Client) -> None:
    add("payout-1")
    answer_sends(fake, refused(409, "idempotency_key_reused"))
    run_once(client)
    assert statuses() == {"payout-1": "uncertain"}


@pytest.mark.parametrize("answer", [refused(400, "invalid"), refused(404, "not_found")], ids=["400", "404"])
def test_a_row_fails_only_if_it_was_never_handed_over(
    outbox: None, fake: FakeService, client: Client, answer: Answer
) -> None:
    add("lost")
    fake.loss = lambda request: DROP if request.method == "POST" else None
    run_once(client)
    add("new")
    make_due()
    fake.refusal = lambda request: answer if request.method == "POST" else None
    run_once(client)
    assert statuses() == {"lost": "uncertain", "new": "failed"}
    assert "without an answer" in OutboxTransaction.objects.get(key="lost").status_reason


def test_a_refused_repetition_of_a_lost_request_is_uncertain(outbox: None, fake: FakeService) -> None:
    # By a client of the caller, which repeats requests itself.
    add("payout-1")
    answers = iter([DROP, refused(400, "invalid")])
    fake.refusal = lambda request: next(answers) if request.method == "POST" else None
    with Client(fake.url, "a-token", retries=Retries(first_pause=0)) as client:
        run_once(client)
    assert statuses() == {"payout-1": "uncertain"}


def test_a_stored_row_with_an_id_that_is_refused_ends(outbox: None, fake: FakeService, client: Client) -> None:
    add_many(3)
    OutboxTransaction.objects.filter(key="payout-0").update(relayer="x/rpc")
    earlier = timezone.now() - timedelta(minutes=1)
    OutboxTransaction.objects.filter(key="payout-1").update(relayer="x/rpc", unanswered_since=earlier)
    add("accepted")
    OutboxTransaction.objects.filter(key="accepted").update(relayer="x/", status="sent", transaction_id=str(uuid4()))
    run_once(client)
    assert statuses() == {
        "payout-0": "failed",
        "payout-1": "uncertain",
        "payout-2": "pending",
        "accepted": "uncertain",
    }
    for row in OutboxTransaction.objects.exclude(key="payout-2"):
        assert "is not an ID" in row.status_reason


def test_two_senders_hand_each_row_over_once(shared_outbox: None, fake: FakeService, client: Client) -> None:
    add_many(40)

    def send() -> int:
        with Client(fake.url, "a-token", retries=NO_RETRIES) as own:
            return sum(run_once(own).accepted for _ in range(4))

    assert sum(in_threads(send, send, send)) == 40
    assert len(fake.posts) == len(fake.accepted) == 40
    assert {*statuses().values()} == {"pending"}


def test_the_rows_of_a_killed_sender_are_due_after_its_lease(outbox: None, fake: FakeService, client: Client) -> None:
    add_many(3)
    hand_over(client)  # which claims them, and is killed
    run_once(client)
    assert fake.posts == []
    make_due()
    run_once(client)
    assert statuses() == ACCEPTED


def test_a_sender_that_lost_its_claim_writes_nothing(outbox: None, fake: FakeService, client: Client) -> None:
    add("payout-1")
    slow = hand_over(client)
    make_due()
    run_once(client)
    fake.refusal = lambda request: refused(400, "invalid") if request.method == "POST" else None
    slow.run(lambda: False)
    assert statuses() == {"payout-1": "pending"}
    assert not slow.claim.save(slow.claim.rows[0], status="failed")
    slow.claim.save_all(slow.claim.rows)
    assert statuses() == {"payout-1": "pending"}


def test_rows_are_not_sent_after_the_lease(outbox: None, fake: FakeService, client: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr("relayer_client.outbox.claims.LEASE", timedelta(seconds=-1))
    add_many(3)
    run_once(client)
    assert (fake.posts, doubts(), statuses()) == ([], set(), QUEUED)


def test_a_stop_leaves_the_rest_to_others_at_once(outbox: None, fake: FakeService, client: Client) -> None:
    add_many(3)
    run_once(client, should_stop=lambda: len(fake.posts) == 1)
    assert statuses() == QUEUED | {"payout-0": "pending"}
    assert doubts() == set()
    run_once(client)
    assert statuses() == ACCEPTED
