"""How the database reads a page of transactions."""

from collections.abc import Callable
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

INDEXES = (
    "transaction_relayer",
    "transaction_relayer_queue",
    "transaction_relayer_in_flight",
    "transaction_confirmed",
)


def walks_the_primary_key(request: Callable[[], Any]) -> bool:
    """Whether the page of a request can be read in its order from the primary key, past the rows of other relayers.

    On a small table the planner uses an index of the relayer anyway. Without these, only a sort gives the order.
    """
    with CaptureQueriesContext(connection) as queries:
        request()
    pages = (each["sql"] for each in queries if 'FROM "transactions_transaction" ' in each["sql"])
    (page,) = (sql for sql in pages if "JOIN" in sql and "ORDER BY" in sql)
    with connection.cursor() as cursor:
        for name in INDEXES:
            cursor.execute(f"DROP INDEX {name}")
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_sort = off")
        cursor.execute(f"EXPLAIN {'QUERY PLAN' if connection.vendor == 'sqlite' else ''} {page}")
        plan = str(cursor.fetchall())
    return "Sort" not in plan and "TEMP B-TREE" not in plan
