"""A database that cannot answer now: 503 with the time to come back, and nothing that was acknowledged is lost."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection, connections
from django.test import Client

from tests import processes
from tests.concurrency import PATIENCE_SECONDS
from tests.conftest import Log
from tests.sample.models import Item

pytestmark = pytest.mark.both_engines

UNAVAILABLE = {"data": None, "message": "Service Unavailable", "success": False}
WRITERS = 12


@pytest.fixture
def caller(token: str) -> Client:
    return calling(token)


def calling(token: str) -> Client:
    return Client(raise_request_exception=False, headers={"Authorization": f"Bearer {token}"})


def post(caller: Client, identifier: str) -> Any:
    return caller.post("/api/v1/items", {"id": identifier, "name": "First"}, "application/json")


@contextmanager
def locked(table: str) -> Iterator[None]:
    """Hold the lock that a write to the table needs, from another connection."""
    if connection.vendor == "sqlite":
        with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            yield
        return
    with psycopg.connect(processes.database_url()) as holder:
        holder.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
        yield
        holder.rollback()


@pytest.fixture
def impatient(transactional_db: None) -> Iterator[None]:
    """Have this thread wait for a lock no longer than a millisecond."""
    setting = "PRAGMA busy_timeout = {}" if connection.vendor == "sqlite" else "SET lock_timeout = {}"
    with connection.cursor() as cursor:
        cursor.execute(setting.format(1))
    yield
    with connection.cursor() as cursor:
        cursor.execute(setting.format(PATIENCE_SECONDS * 1000))


@pytest.mark.usefixtures("impatient")
def test_a_write_that_gets_no_lock_gets_retry_after_and_is_logged_once(caller: Client, user: User, log: Log) -> None:
    User.objects.update(is_staff=True)
    with locked("sample_item"):
        answers = [post(caller, "item-1") for _ in range(3)]
    assert [(each.status_code, each.json(), each["Retry-After"]) for each in answers] == [(503, UNAVAILABLE, "5")] * 3
    errors = [line for line in log.parsed() if line["level"] == "ERROR"]
    assert [(line["message"].partition(":")[0], "traceback" in line) for line in errors] == [
        ("The database is unavailable", False)
    ]
    with locked("auth_user"):
        page = caller.post("/admin/login/", {"username": "alice", "password": "a-password-for-tests"})
    assert (page.status_code, page.content, page["Retry-After"]) == (503, b"Service Unavailable", "5")
    assert not Item.objects.exists()
    assert post(caller, "item-1").status_code == 201


def test_a_database_that_is_down_is_unavailable_and_a_wrong_statement_a_server_error(caller: Client) -> None:
    def away(execute: Callable[..., Any], *rest: Any) -> Any:
        raise OperationalError("could not connect to db.internal as relayer")

    with connection.execute_wrapper(away):
        answer = caller.get("/api/v1/items")
    assert (answer.status_code, answer.json()) == (503, UNAVAILABLE)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE sample_item RENAME TO elsewhere")
    answer = caller.get("/api/v1/items")
    assert (answer.status_code, answer.json()) == (500, UNAVAILABLE | {"message": "Internal Server Error"})


def test_of_many_writers_each_is_stored_or_gets_an_error(
    transactional_db: None, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite has one writer at a time, so that others meet its lock; on PostgreSQL they do not."""
    sqlite = connection.vendor == "sqlite"
    if sqlite:
        monkeypatch.setitem(connections.settings["default"]["OPTIONS"], "timeout", 0.02)
    all_have_met_the_lock = threading.Barrier(WRITERS + 1)

    def write(writer: int) -> list[tuple[str, int]]:
        caller = calling(token)
        answers = [(f"{writer}-0", post(caller, f"{writer}-0").status_code)]
        all_have_met_the_lock.wait(PATIENCE_SECONDS)
        answers += [(f"{writer}-{n}", post(caller, f"{writer}-{n}").status_code) for n in range(1, 4)]
        connection.close()
        return answers

    with ThreadPoolExecutor(WRITERS) as pool:
        with locked("sample_item") if sqlite else nullcontext():
            writers = [pool.submit(write, number) for number in range(WRITERS)]
            all_have_met_the_lock.wait(PATIENCE_SECONDS)
        answers = {name: status for writer in writers for name, status in writer.result()}
    assert set(answers.values()) == ({201, 503} if sqlite else {201})
    stored = {name for name, status in answers.items() if status == 201}
    assert set(Item.objects.values_list("identifier", flat=True)) == stored
