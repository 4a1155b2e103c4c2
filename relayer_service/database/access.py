"""The database: its configuration from DATABASE_URL, its errors, durable commits, and the release of connections."""

import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, close_old_connections, connection, transaction

POSTGRESQL_SCHEMES = ("postgresql://", "postgres://")
ROOM_BYTES = 65_536
# Writes some hundred KB to a temporary file of PostgreSQL, on the disk of the data.
SPILL = ("SET LOCAL temp_tablespaces = ''", "SET LOCAL work_mem = 64", "SELECT count(*) FROM generate_series(1, 9999)")
PREPARE_THRESHOLD = 2
# How long to wait for an unreachable server; `connect_timeout` is the minimum of libpq.
TIMEOUTS = {"connect_timeout": 2, "tcp_user_timeout": 5_000, "keepalives_idle": 5, "keepalives_interval": 1}
# The pool does not retry: `Outage` decides when to connect again.
POOL = {"min_size": 1, "timeout": 0.25, "reconnect_timeout": 0}


def configuration(
    url: str, sqlite_file: Path, *, pool_size: int, statement_timeout_ms: int, lock_timeout_ms: int, prepare: bool
) -> dict[str, Any]:
    if not url or url.startswith("sqlite:"):
        return sqlite(Path(url.removeprefix("sqlite:")) if url else sqlite_file, lock_timeout_ms)
    if url.startswith(POSTGRESQL_SCHEMES):
        return postgresql(url, pool_size, statement_timeout_ms, lock_timeout_ms, prepare)
    raise ImproperlyConfigured("DATABASE_URL must start with postgresql:// or sqlite:")


def sqlite(file: Path, lock_timeout_ms: int) -> dict[str, Any]:
    """Return the configuration of SQLite: readers never wait, writers queue, and writes survive a power failure."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(file),
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "timeout": lock_timeout_ms / 1000,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON",
        },
    }


def postgresql(
    url: str, pool_size: int, statement_timeout_ms: int, lock_timeout_ms: int, prepare: bool
) -> dict[str, Any]:
    """Return the configuration of PostgreSQL. libpq parses the URL, which may have any of its options."""
    from psycopg.conninfo import conninfo_to_dict

    from relayer_service.database.postgresql.outages import Connection

    try:
        options: dict[str, Any] = TIMEOUTS | conninfo_to_dict(url)
    except (psycopg.ProgrammingError, UnicodeDecodeError):
        raise ImproperlyConfigured("DATABASE_URL is not a valid PostgreSQL URL") from None
    timeouts = f"-c statement_timeout={statement_timeout_ms} -c lock_timeout={lock_timeout_ms}"
    options["options"] = " ".join(filter(None, (options.get("options"), timeouts)))
    options["pool"] = POOL | {"max_size": pool_size, "connection_class": Connection}
    options |= {"server_side_binding": prepare, "prepare_threshold": PREPARE_THRESHOLD if prepare else None}
    return {
        "ENGINE": "relayer_service.database.postgresql",
        "NAME": options.pop("dbname", ""),
        "USER": options.pop("user", ""),
        "PASSWORD": options.pop("password", ""),
        "HOST": options.pop("host", ""),
        "PORT": options.pop("port", ""),
        "OPTIONS": options,
    }


def is_unavailable(error: BaseException | None) -> bool:
    """Return whether the database was busy, unreachable or full, so that the same request may succeed later."""
    # SQLite raises operational errors for invalid statements too.
    cause = error.__cause__ if isinstance(error, OperationalError) else None
    wrong_statement = isinstance(cause, sqlite3.Error) and cause.sqlite_errorcode == sqlite3.SQLITE_ERROR
    # Django passes on psycopg's own error where it closes the cursor of rows that are read in chunks.
    return isinstance(error, (OperationalError, psycopg.OperationalError)) and not wrong_statement


def require_room() -> None:
    """Raise OSError or OperationalError if the disk of the database is full: small writes reuse space within files."""
    if connection.vendor == "postgresql":
        with transaction.atomic(), connection.cursor() as cursor:
            for statement in SPILL:
                cursor.execute(statement)
        return
    with tempfile.TemporaryFile(dir=Path(connection.settings_dict["NAME"]).parent) as file:
        file.write(bytes(ROOM_BYTES))
        file.flush()
        os.fsync(file.fileno())


def require_durability() -> None:
    """Make the commit of this transaction wait for the disk, whatever the server's default is."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit = on")


def release_connection() -> None:
    """Return the connection to its pool before a long wait, unless it is in a transaction."""
    if not connection.in_atomic_block:
        close_old_connections()
