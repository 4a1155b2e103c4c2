"""What a DATABASE_URL becomes, and that its safeguards are in force on a real connection."""

from contextlib import closing
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
POOL = {"min_size": 1, "max_size": 20, "timeout": 0.25, "reconnect_timeout": 0, "connection_class": Connection}


PREPARED = {"server_side_binding": True, "prepare_threshold": 2}
PATIENCE = {"connect_timeout": 2, "tcp_user_timeout": 5_000, "keepalives_idle": 5, "keepalives_interval": 1}


def configuration(url: str, *, prepare: bool = True) -> dict[str, Any]:
    return access.configuration(
        url, FILE, pool_size=20, statement_timeout_ms=15_000, lock_timeout_ms=5_000, prepare=prepare
    )


@pytest.mark.parametrize(("url", "name"), [("", "/data/db.sqlite3"), ("sqlite:relative.sqlite3", "relative.sqlite3")])
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


OPTIONS: dict[str, Any] = {"options": TIMEOUTS, "pool": POOL, **PREPARED, **PATIENCE}
UNPREPARED = {"server_side_binding": False, "prepare_threshold": None}
TLS = {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}


@pytest.mark.parametrize(
    ("url", "place", "options"),
    [
        (
            "postgresql://relayer:pw@db.example.com:6432/service?sslmode=verify-full&sslrootcert=/ca.pem",
            ("relayer", "pw", "db.example.com", "6432"),
            TLS,
        ),
        (
            "postgres://relayer:p%40ss%2Fw%3Ard%20%C3%A9@127.0.0.1/service",
            ("relayer", "p@ss/w:rd é", "127.0.0.1", ""),
            {},
        ),
        ("postgresql://relayer@/service?host=/run/postgresql", ("relayer", "", "/run/postgresql", ""), {}),
        (
            "postgresql://%2Frun%2Fpostgresql/service?options=-c%20search_path%3Drelayer",
            ("", "", "/run/postgresql", ""),
            {"options": f"-c search_path=relayer {TIMEOUTS}"},
        ),
        ("postgresql://a@[2001:db8::1]:5433/service", ("a", "", "2001:db8::1", "5433"), {}),
        (
            "postgresql://a@b/service?connect_timeout=30&tcp_user_timeout=0",
            ("a", "", "b", ""),
            {"connect_timeout": "30", "tcp_user_timeout": "0"},
        ),
    ],
)
def test_a_postgresql_url_is_read_as_libpq_reads_it(
    url: str, place: tuple[str, str, str, str], options: dict[str, Any]
) -> None:
    expected = dict(zip(("USER", "PASSWORD", "HOST", "PORT"), place, strict=True))
    expected |= {"ENGINE": "relayer_service.database.postgresql", "NAME": "service"}
    assert configuration(url) == {**expected, "OPTIONS": OPTIONS | options}
    # A pooler that knows no prepared statements can be used.
    assert configuration(url, prepare=False)["OPTIONS"] == OPTIONS | UNPREPARED | options


NOT_VALID, NO_SCHEME = "is not a valid PostgreSQL URL", "must start with postgresql:// or sqlite:"


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("mysql://root:hunter2@127.0.0.1/x", NO_SCHEME),
        ("postgresql://a:hunter2@[::1/x", NOT_VALID),
        ("postgresql://a:hunter2%zz@127.0.0.1/x", NOT_VALID),
        ("postgresql://127.0.0.1/x?hunter2=1", NOT_VALID),
        ("postgresql://a:hunter2%ff@127.0.0.1/x", NOT_VALID),
        ("postgresql://a:hunter2%00@127.0.0.1/x", NOT_VALID),
    ],
)
def test_a_bad_url_names_its_variable_and_shows_nothing_of_it(url: str, fault: str) -> None:
    with pytest.raises(ImproperlyConfigured) as raised:
        configuration(url)
    assert str(raised.value) == f"DATABASE_URL {fault}"
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def rows(database: BaseDatabaseWrapper, *statements: str) -> list[Any]:
    found: list[Any] = []
    with database.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            found += cursor.fetchone() or ()
    return found


@pytest.mark.django_db
def test_the_safeguards_of_the_engine_are_in_force() -> None:
    if connection.vendor == "sqlite":
        names = ["journal_mode", "synchronous", "foreign_keys", "busy_timeout"]
        assert rows(connection, *(f"PRAGMA {name}" for name in names)) == ["wal", 2, 1, PATIENCE_SECONDS * 1000]
    else:
        names = ["statement_timeout", "lock_timeout"]
        assert rows(connection, *(f"SHOW {name}" for name in names)) == [f"{PATIENCE_SECONDS // 60}min"] * 2


@pytest.mark.django_db
def test_a_sqlite_transaction_is_a_writer_from_its_start_and_keeps_no_reader_waiting(tmp_path: Path) -> None:
    first, second = (access.sqlite(tmp_path / "pair.sqlite3", timeout) for timeout in (5_000, 0))
    handler = ConnectionHandler({"default": first, "second": second})
    writer, other = handler["default"], handler["second"]
    with closing(writer), closing(other):
        rows(writer, "CREATE TABLE counter (value INTEGER)", "INSERT INTO counter VALUES (1)")
        writer.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
        with pytest.raises(OperationalError, match="database is locked"):
            rows(other, "UPDATE counter SET value = 3")
        assert rows(other, "SELECT value FROM counter") == [1]
        rows(writer, "UPDATE counter SET value = 2")
        assert rows(other, "SELECT value FROM counter") == [1]
        writer.commit()
        writer.set_autocommit(True)
        assert rows(other, "SELECT value FROM counter") == [2]
