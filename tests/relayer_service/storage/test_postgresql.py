"""The connections to PostgreSQL: the pool after the server has closed some of them, and times as they are read."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, connections
from django.db.backends.postgresql.psycopg_any import BaseTzLoader

from tests.databases import named

pytestmark = pytest.mark.both_engines

ALIAS = "pooled"
CONNECTIONS = 3


@contextmanager
def pooled() -> Iterator[Any]:
    """Yield the test database behind a pool of its own, with a few idle connections."""
    with named(ALIAS, connection.settings_dict):
        pool = connections[ALIAS].pool  # type: ignore[attr-defined]  # PostgreSQL's alone
        pool.open()
        # Else one of those that it opens at first might come while there are enough.
        pool.wait()
        for idle in [pool.getconn() for _ in range(CONNECTIONS)]:
            pool.putconn(idle)
        yield connections[ALIAS]


def run(database: Any, statement: str) -> Any:
    """Run a statement as a request does: with a connection of the pool, which is returned after it."""
    try:
        with database.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()[0] if cursor.description else None
    finally:
        database.close()


def pids(database: Any) -> set[int]:
    return {run(database, "SELECT pg_backend_pid()") for _ in range(CONNECTIONS)}


@pytest.mark.postgresql
def test_connections_that_the_server_has_closed_fail_no_request_and_others_are_kept(db: None) -> None:
    with pooled() as database:
        idle = pids(database)
        assert len(idle) == CONNECTIONS
        # On which the server has only said something.
        run(database, "LISTEN news")
        run(database, "SELECT pg_notify('news', '')")
        assert pids(database) == idle
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s) AS pid", [list(idle)])
        assert idle.isdisjoint(pids(database))


@pytest.mark.postgresql
@pytest.mark.parametrize(
    "text",
    ["2026-11-18 04:55:00+00", "2026-11-18 04:55:00.5+00", "1969-12-31 23:59:59.000001+00", "0001-01-01 00:00:00+00"],
)
def test_times_are_read_as_django_reads_them(db: None, text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz", [text])
        (fast,) = cursor.fetchone()
        cursor.adapters.register_loader(
            "timestamptz", type("Loader", (BaseTzLoader,), {"timezone": connection.timezone})
        )
        cursor.execute("SELECT %s::timestamptz", [text])
        (own,) = cursor.fetchone()
    assert (fast, fast.tzinfo) == (own, own.tzinfo)
