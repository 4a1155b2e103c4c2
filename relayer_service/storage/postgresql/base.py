"""Django's PostgreSQL, but a connection that was closed while it was in the pool fails no request."""

from __future__ import annotations

import select
from typing import Any

from django.db.backends.postgresql import base
from psycopg import OperationalError
from psycopg_pool import ConnectionPool


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Return a connection that is open; the pool replaces those that are not."""
        while True:
            connection = super().get_new_connection(conn_params)
            if self.pool is None or is_open(connection):
                return connection
            self.pool.putconn(connection)


def is_open(connection: Any) -> bool:
    """Return whether an idle connection can be used, by a query only if the server has sent something unasked.

    A server that ends, fails over or cuts a connection says so, or closes it: the socket has something to read.
    """
    poll = select.poll()
    try:
        poll.register(connection.fileno(), select.POLLIN)
        if poll.poll(0):
            ConnectionPool.check_connection(connection)
    except OperationalError:
        return False
    return True
