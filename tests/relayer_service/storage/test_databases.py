"""What a DATABASE_URL becomes, and that its safeguards are in force on a real connection."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from relayer_service.database import access
from relayer_service.database.postgresql.outages import Connection
from tests.concurrency import PATIENCE_SECONDS

FILE = Path("/data/db.sqlite3")
TIMEOUTS = "-c statement_timeout=15000 -c lock_timeout=5000"
POOL = {
    "min_size": 1,
    "max_size": 20,
    "timeout": 0.25,
    "reconnect_timeout": 0,
    "connection_class": Connection,
}


PREPARED = {"server_side_binding": True, "prepare_threshold": 2}
PATIENCE = {"connect_timeout": 2, "tcp_user_timeout": 5_000, "keepalives_idle": 5, "keepalives_interval": 1}


def configuration(url: str, *, prepare: bool = True) -> dict[str, Any]:
    return access.configuration(
        url, FILE, pool_size=20, statement_timeout_ms=15_000, lock_timeout_ms=5_000, prepare=prepare
    )


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("", "/data/db.sqlite3"),
        ("sqlite:/other/file.sqlite3", "/other/file.sqlite3"),
        ("sqlite:relative.sqlite3", "relative.sqlite3"),
    ],
)
def test_sqlite_is_the_default_and_can_be_named(url: str, name: str) -> None:
    assert configuration(url) == {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "timeout": 5.0,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON",
        },
    }


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql://relayer:pw@db.example.com:6432/service?sslmode=verify-full&sslrootcert=/ca.pem",
            {
                "NAME": "service",
                "USER": "relayer",
                "PASSWORD": "pw",
                "HOST": "db.example.com",
                "PORT": "6432",
                "OPTIONS": {
                    "sslmode": "verify-full",
                    "sslrootcert": "/ca.pem",
                    "options": TIMEOUTS,
                    "pool": POOL,
                    **PREPARED,
                    **PATIENCE,
                },
            },
        ),
        (
            "postgres://relayer:p%40ss%2Fw%3Ard%20%C3%A9@127.0.0.1/service",
            {
                "NAME": "service",
                "USER": "relayer",
                "PASSWORD": "p@ss/w:rd é",
                "HOST": "127.0.0.1",
                "PORT": "",
                "OPTIONS": {"options": TIMEOUTS, "pool": POOL, **PREPARED, **PATIENCE},
            },
        ),
        (
            "postgresql://relayer@/service?host=/run/postgresql",
            {
                "NAME": "service",
                "USER": "relayer",
                "PASSWORD": "",
                "HOST": "/run/postgresql",
                "PORT": "",
                "OPTIONS": {"options": TIMEOUTS, "pool": POOL, **PREPARED, **PATIENCE},
            },
        ),
        (
            "postgresql://%2Frun%2Fpostgresql/service?options=-c%20search_path%3Drelayer",
            {
                "NAME": "service",
                "USER": "",
                "PASSWORD": "",
                "HOST": "/run/postgresql",
                "PORT": "",
                "OPTIONS": {"options": f"-c search_path=relayer {TIMEOUTS}", "pool": POOL, **PREPARED, **PATIENCE},
            },
        ),
        (
            "postgresql://a@[2001:db8::1]:5433/service",
            {
                "NAME": "service",
                "USER": "a",
                "PASSWORD": "",
                "HOST": "2001:db8::1",
                "PORT": "5433",
                "OPTIONS": {"options": TIMEOUTS, "pool": POOL, **PREPARED, **PATIENCE},
            },
        ),
    ],
)
def test_a_postgresql_url_is_read_as_libpq_reads_it(url: str, expected: dict[str, Any]) -> None:
    assert configuration(url) == {"ENGINE": "relayer_service.database.postgresql", **expected}


def test_a_pooler_that_knows_no_prepared_statements_can_be_used() -> None:
    options = configuration("postgresql://127.0.0.1/service", prepare=False)["OPTIONS"]
    unprepared = {"server_side_binding": False, "prepare_threshold": None}
    assert options == {"options": TIMEOUTS, "pool": POOL, **unprepared, **PATIENCE}


def test_a_url_may_ask_for_more_patience() -> None:
    options = configuration("postgresql://127.0.0.1/service?connect_timeout=30&tcp_user_timeout=0")["OPTIONS"]
    assert (options["connect_timeout"], options["tcp_user_timeout"]) == ("30", "0")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://root:hunter2@127.0.0.1/x", "DATABASE_URL must start with postgresql:// or sqlite:"),
        ("hunter2", "DATABASE_URL must start with postgresql:// or sqlite:"),
        ("postgresql://a:hunter2@[::1/x", "DATABASE_URL is not a valid PostgreSQL URL"),
        ("postgresql://a:hunter2%zz@127.0.0.1/x", "DATABASE_URL is not a valid PostgreSQL URL"),
        ("postgresql://127.0.0.1/x?hunter2=1", "DATABASE_URL is not a valid PostgreSQL URL"),
        ("postgresql://a:hunter2%ff@127.0.0.1/x", "DATABASE_URL is not a valid PostgreSQL URL"),
        ("postgresql://a:hunter2%00@127.0.0.1/x", "DATABASE_URL is not a valid PostgreSQL URL"),
    ],
)
def test_a_bad_url_names_its_variable_and_shows_nothing_of_it(url: str, message: str) -> None:
    with pytest.raises(ImproperlyConfigured) as raised:
        configuration(url)
    assert str(raised.value) == message
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def rows(database: BaseDatabaseWrapper, *statements: str) -> list[Any]:
    found = []
    with database.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            found.append(cursor.fetchone()[0])
    return found


@pytest.mark.django_db
def test_the_safeguards_of_the_engine_are_in_force() -> None:
    if connection.vendor == "sqlite":
        names = ["journal_mode", "synchronous", "foreign_keys", "busy_timeout"]
        assert rows(connection, *(f"PRAGMA {name}" for name in names)) == ["wal", 2, 1, PATIENCE_SECONDS * 1000]
    else:
        names = ["statement_timeout", "lock_timeout"]
        assert rows(connection, *(f"SHOW {name}" for name in names)) == ["3min", "3min"]


@pytest.fixture
def sqlite_pair(tmp_path: Path) -> Iterator[tuple[BaseDatabaseWrapper, BaseDatabaseWrapper]]:
    """Two connections to one new SQLite file, of which the second does not wait."""
    first = access.sqlite(tmp_path / "pair.sqlite3", 5_000)
    second = access.sqlite(tmp_path / "pair.sqlite3", 0)
    handler = ConnectionHandler({"default": first, "second": second})
    pair = handler["default"], handler["second"]
    with pair[0].cursor() as cursor:
        cursor.execute("CREATE TABLE counter (value INTEGER)")
        cursor.execute("INSERT INTO counter VALUES (1)")
    yield pair
    for database in pair:
        database.close()


@pytest.mark.django_db
def test_a_sqlite_transaction_is_a_writer_from_its_start(
    sqlite_pair: tuple[BaseDatabaseWrapper, BaseDatabaseWrapper],
) -> None:
    first, second = sqlite_pair
    first.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    with pytest.raises(OperationalError, match="database is locked"), second.cursor() as cursor:
        cursor.execute("UPDATE counter SET value = 2")
    first.rollback()
    first.set_autocommit(True)


@pytest.mark.django_db
def test_a_sqlite_reader_does_not_wait_for_a_writer(
    sqlite_pair: tuple[BaseDatabaseWrapper, BaseDatabaseWrapper],
) -> None:
    first, second = sqlite_pair
    first.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    rows_before = rows(second, "SELECT value FROM counter")
    with first.cursor() as cursor:
        cursor.execute("UPDATE counter SET value = 2")
    assert rows_before == rows(second, "SELECT value FROM counter") == [1]
    first.commit()
    first.set_autocommit(True)
    assert rows(second, "SELECT value FROM counter") == [2]
