"""Django's PostgreSQL backend, where closed connections in the pool fail no request, and outages fail fast."""

import select
import time
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django.db.backends.postgresql import base
from django.db.backends.postgresql.psycopg_any import BaseTzLoader
from psycopg import OperationalError
from psycopg_pool import ConnectionPool, PoolTimeout

from relayer_service.database.postgresql.outages import outage

# How long a request waits while all connections of the pool are in use.
WAIT_SECONDS = 10


class TimestampLoader(BaseTzLoader):
    """Django's loader, where `datetime` parses what it can: that takes a twentieth of the time."""

    timezone = UTC

    def load(self, data: Any) -> datetime:
        try:
            return datetime.fromisoformat(str(data, "ascii"))
        except ValueError:
            loaded: datetime = super().load(data)
            return loaded


@cache
def register_loaders(adapters: Any) -> None:
    adapters.register_loader("timestamptz", TimestampLoader)


class DatabaseWrapper(base.DatabaseWrapper):
    def get_connection_params(self) -> dict[str, Any]:
        params: dict[str, Any] = super().get_connection_params()
        # Django calls this for each request, with the same adapters.
        register_loaders(params["context"].adapters)
        return params

    def _set_autocommit(self, autocommit: bool) -> None:
        # Django calls this for each request, and a connection of the pool usually is in autocommit mode already.
        if self.connection.autocommit != autocommit:
            super()._set_autocommit(autocommit)  # type: ignore[misc]  # django-stubs omits it

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        if self.pool is None:
            return super().get_new_connection(conn_params)
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            if outage.is_down and not self.pool.get_stats()["pool_available"]:
                outage.require_none()
            try:
                connection = super().get_new_connection(conn_params)
            except PoolTimeout:
                # The pool waits for less than WAIT_SECONDS, so that waiting requests notice an outage.
                if time.monotonic() >= deadline:
                    raise
                continue
            if is_open(connection):
                return connection
            self.pool.putconn(connection)


def is_open(connection: Any) -> bool:
    """Return whether an idle connection is usable; query only if the server has sent something or closed it."""
    poll = select.poll()
    try:
        poll.register(connection.fileno(), select.POLLIN)
        if poll.poll(0):
            ConnectionPool.check_connection(connection)
    except OperationalError:
        return False
    return True
