"""The last use of a token: queued by the request at most once a minute, written by a worker."""

import time
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client
from huey.storage import MemoryStorage
from pytest_django import DjangoAssertNumQueries

from relayer_service.background.tasks import queue
from tokens.models import AccessToken
from tokens.tasks import record_use
from tokens.writes import issue

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def get(client: Client, text: str) -> int:
    return client.get("/api/v1/items", headers={"Authorization": f"Bearer {text}"}).status_code


def work_off_the_queue() -> int:
    """Do what a worker does; return how many tasks there were."""
    count = 0
    while (task := queue.dequeue()) is not None:
        queue.execute(task)
        count += 1
    return count


def used_at(text: str) -> datetime | None:
    found: datetime | None = AccessToken.objects.get(key=text[4:16]).last_used_at
    return found


def test_the_request_writes_nothing_and_the_worker_writes_it(
    client: Client, transactional_db: None, token: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    before = time.time()
    with django_assert_num_queries(2) as captured:
        assert get(client, token) == 200
    # The token, and the page with its total.
    assert [query["sql"].split()[0] for query in captured.captured_queries] == ["SELECT", "WITH"]
    with django_assert_num_queries(1):
        assert get(client, token) == 200
    assert used_at(token) is None
    (message,) = queue.storage.enqueued_items()
    assert token[17:57].encode() not in message
    assert work_off_the_queue() == 1
    written = used_at(token)
    assert written is not None
    assert before <= written.timestamp() <= time.time()


def test_a_busy_token_is_queued_once_a_minute(
    client: Client, token: str, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = issue(name="other", user=user)[1]
    now = time.monotonic()
    queued = []
    for seconds in (0, 1, 59.9, 60, 61, 121):
        monkeypatch.setattr(time, "monotonic", lambda moment=now + seconds: moment)
        assert get(client, token) == 200
        queued.append(queue.pending_count())
    assert queued == [1, 1, 1, 2, 2, 3]
    assert get(client, other) == 200
    assert queue.pending_count() == 4


def test_a_refused_token_is_not_noted(client: Client, user: User) -> None:
    text = issue(name="ci", user=user, enabled=False)[1]
    assert get(client, text) == 401
    assert queue.pending_count() == 0


@pytest.mark.parametrize(("seconds", "written"), [(-3600, 0), (60, 0), (61, 61)])
def test_many_processes_write_it_once_a_minute_and_never_backwards(token: str, seconds: int, written: int) -> None:
    row = AccessToken.objects.get()
    record_use.call_local(row.pk, NOON.timestamp())
    record_use.call_local(row.pk, NOON.timestamp() + seconds)
    found = used_at(token)
    assert found is not None
    assert (found - NOON).total_seconds() == written


def test_writing_it_changes_nothing_else(token: str, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    before = AccessToken.objects.values().get()
    record_use.call_local(before["id"], NOON.timestamp())
    assert AccessToken.objects.values().get() == before | {"first_used_at": NOON, "last_used_at": NOON}
    record_use.call_local(before["id"], NOON.timestamp() + 61)
    assert AccessToken.objects.get().first_used_at == NOON
    # The use of a token that is gone is dropped.
    with django_assert_num_queries(1):
        record_use.call_local(before["id"] + 1, NOON.timestamp())


def test_a_queue_that_is_down_does_not_refuse_a_good_token(
    client: Client, token: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(MemoryStorage):
        def enqueue(self, data: bytes, priority: float | None = None) -> None:
            raise ConnectionError("the queue is away")

    monkeypatch.setattr(queue, "storage", Broken("tests"))
    assert [get(client, token) for _ in range(3)] == [200, 200, 200]
    said = [record.getMessage() for record in caplog.records if record.name == "tokens.authentication"]
    assert said == ["The use of a token could not be queued"]
