"""The pool of connections to PostgreSQL, after the server has closed some of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, connections

from tests.databases import named

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


def test_connections_that_the_server_has_closed_fail_no_request(db: None) -> None:
    if connection.vendor == "sqlite":
        assert not hasattr(connection, "pool")
        return
    with pooled() as database:
        idle = pids(database)
        assert len(idle) == CONNECTIONS
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s) AS pid", [list(idle)])
        assert idle.isdisjoint(pids(database))


def test_a_connection_on_which_the_server_has_only_said_something_is_kept(db: None) -> None:
    if connection.vendor == "sqlite":
        assert not hasattr(connection, "pool")
        return
    with pooled() as database:
        idle = pids(database)
        run(database, "LISTEN news")
        run(database, "SELECT pg_notify('news', '')")
        assert pids(database) == idle
