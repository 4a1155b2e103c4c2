"""Shares of a relayer's queue: no token can keep the others out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from relayer_service.database.clock import database_now
from tests.api import Answer, Api
from tests.concurrency import in_threads
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.rest.requests import PATH, TRANSFER
from tokens.models import AccessToken
from tokens.writes import issue, rotate
from transactions.models import Lane, Transaction
from transactions.records import queues
from transactions.records.queues import Queue
from transactions.requests import accepting, unlocked_accept

pytestmark = [pytest.mark.django_db, pytest.mark.both_engines]

FULL = bodies.failure("Relayer has 8 pending transactions, the maximum")
SHARE_USED = bodies.failure("Relayer has 4 pending transactions of this token, the maximum while others wait")


@pytest.fixture(autouse=True)
def limit(settings: Any) -> None:
    settings.TRANSACTION_QUEUE_LIMIT = 8


@pytest.fixture
def lane() -> Lane:
    return lanes.lane(factories.relayer())


@pytest.fixture
def other(user: User) -> Api:
    return Api(issue(name="other", user=user, scopes=["send"])[1])


def send(client: Api, times: int = 1, **headers: str) -> list[int]:
    return [client.post(PATH, TRANSFER, headers=dict(headers)).status for _ in range(times)]


def persist(client: Api) -> int:
    """Send, and again if the database was busy: SQLite has one writer at a time, and limits how long others wait."""
    while (status := client.post(PATH, TRANSFER).status) == 503:
        pass
    return status


def refused(answer: Answer) -> tuple[int, Any, str]:
    return answer.status, answer.body, answer.headers["error-code"]


@pytest.mark.usefixtures("lane")
def test_while_another_token_waits_a_token_has_half_of_the_queue(sender: Api, other: Api, user: User) -> None:
    send(other)
    key = {"Idempotency-Key": "order-1"}
    first = sender.post(PATH, TRANSFER, headers=dict(key))
    assert send(sender, 3) == [200] * 3
    assert refused(sender.post(PATH, TRANSFER)) == (429, SHARE_USED, "queue_full")
    again = sender.post(PATH, TRANSFER, headers=dict(key))
    assert (again.status, again.body["data"]["id"]) == (200, first.body["data"]["id"])
    clients = (sender, other)
    checks = [client.post(f"{PATH}/dry-run", TRANSFER).body["data"]["checks"] for client in clients]
    assert [check for each in checks for check in each if check["source"] == "queue"] == [
        {"source": "queue", "rule": "queue", "allowed": False, "text": SHARE_USED["message"]},
        {"source": "queue", "rule": "queue", "allowed": True, "text": "5 of 8 places are taken."},
    ]
    # A token waits for its own transactions.
    before = database_now() - timedelta(minutes=10)
    Transaction.objects.filter(requested_by__startswith="payments").update(created_at=before)
    assert 600 <= wait_of(sender) <= 900
    assert send(other, 3) == [200] * 3
    # All tokens together have one queue.
    third = Api(issue(name="third", user=user, scopes=["send"])[1])
    assert refused(third.post(PATH, TRANSFER)) == (429, FULL, "queue_full")


@pytest.mark.parametrize(("requester", "count"), [("", 1), ("former", 20)], ids=["staff", "a long queue"])
def test_what_others_request_is_beside_the_share(sender: Api, lane: Lane, requester: str, count: int) -> None:
    for _ in range(count):
        lanes.transaction(lane, requester=requester)
    assert send(sender, 5) == [200] * 4 + [429]


@pytest.mark.usefixtures("lane")
def test_rotating_a_token_gives_no_second_share(sender: Api, other: Api) -> None:
    send(other)
    send(sender, 2)
    first = Api(rotate(AccessToken.objects.get(name="payments").pk).text)
    assert send(first) == [200]
    second = Api(rotate(AccessToken.objects.get(name="payments", replaced_at=None).pk).text)
    assert [send(client) for client in (second, second, first, sender)] == [[200], [429], [429], [429]]


@pytest.mark.parametrize("unlocked", [True, False])
@pytest.mark.django_db(transaction=True)
def test_concurrent_requests_do_not_exceed_the_share(
    sender: Api, other: Api, settings: Any, monkeypatch: pytest.MonkeyPatch, unlocked: bool
) -> None:
    settings.TRANSACTION_QUEUE_LIMIT = 32
    if not unlocked:
        monkeypatch.setattr(accepting, "_accept_without_lock", lambda request: None)
    lanes.lane(factories.relayer())
    send(other)
    answers = in_threads(*[lambda: persist(sender)] * 32)
    assert (sorted(answers), Transaction.objects.count()) == ([200] * 16 + [429] * 16, 17)


@pytest.mark.django_db(transaction=True)
def test_of_concurrent_requests_with_one_key_for_the_last_place_each_is_answered(sender: Api) -> None:
    lanes.lane(factories.relayer())
    send(sender, 7)
    headers = {"Idempotency-Key": "order-1"}
    answers = in_threads(*[lambda: sender.post(PATH, TRANSFER, headers=dict(headers))] * 8)
    assert [answer.status for answer in answers] == [200] * 8
    assert len({answer.body["data"]["id"] for answer in answers}) == 1


def wait_of(client: Api) -> int:
    answer = client.post(PATH, TRANSFER)
    assert answer.status == 429
    return int(answer.headers["retry-after"])


@pytest.mark.postgresql
def test_a_queue_far_from_its_maximum_is_not_counted_to_its_end(
    lane: Lane, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TRANSACTION_QUEUE_LIMIT = 1_000
    monkeypatch.setattr(queues, "MAX_POSITION", 3)
    last = [lanes.transaction(lane, requester="own") for _ in range(6)][-1]
    assert read_queue(lane) == Queue(4, 4, 4)
    # From one row to the other, there might be too many.
    lanes.transaction(lane, pk=last.pk + 500)
    assert read_queue(lane) == Queue(7, 6, 7)


def read_queue(lane: Lane) -> Queue:
    assert lane.relayer
    seen = unlocked_accept.read(lane.relayer.identifier, None, "own").lane
    assert seen
    return seen.queue


@pytest.mark.usefixtures("lane")
def test_a_token_that_is_alone_has_the_whole_queue_and_keeps_no_newcomer_out(sender: Api, other: Api) -> None:
    assert send(sender, 8) == [200] * 8
    assert refused(sender.post(PATH, TRANSFER)) == (429, FULL, "queue_full")
    assert send(other, 5) == [200] * 4 + [429]
    answer = sender.post(PATH, TRANSFER)
    assert (answer.status, answer.body) == (429, bodies.failure(SHARE_USED["message"].replace("4", "8")))


def fill(lane: Lane, **changes: Any) -> None:
    for _ in range(8):
        lanes.transaction(lane, **({"requester": "full"} | changes))


def test_a_queue_that_moves_is_retried_after_a_block(sender: Api, lane: Lane) -> None:
    fill(lane, created_at=database_now() - timedelta(hours=2), requester="")
    fill(lane)
    lanes.transaction(lane, requester="", status="sent", nonce=0, sent_at=database_now() + timedelta(hours=1))
    assert wait_of(sender) == 12


@pytest.mark.parametrize(
    ("minutes", "changes", "expected"),
    [
        # As long again as nothing has moved.
        (5, {}, (300, 900)),
        # So that a repair is noticed.
        (500, {}, (900, 900)),
        # Until one expires.
        (500, {"valid_until": timedelta(seconds=200)}, (12, 200)),
        # Until one is considered again.
        (0, {"due_at": timedelta(days=1)}, (900, 900)),
    ],
)
def test_a_queue_that_does_not_move_is_retried_later(
    sender: Api, lane: Lane, minutes: int, changes: dict[str, timedelta], expected: tuple[int, int]
) -> None:
    now = database_now()
    times = {name: now + after for name, after in changes.items()}
    fill(lane, created_at=now - timedelta(minutes=minutes), **times)
    fill(lane, created_at=now - timedelta(minutes=minutes), requester="", **times)
    least, most = expected
    assert least <= wait_of(sender) <= most
