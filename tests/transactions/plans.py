"""How the database reads a page of transactions."""

import re
from collections.abc import Callable, Iterator
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
    page = page_statement(request)
    # A list of one page has no statement within for the keys of a page.
    keys = next(iter(re.findall(r" IN \((SELECT .+ LIMIT [^)]+)\)", page)), page)
    with connection.cursor() as cursor:
        for name in INDEXES:
            cursor.execute(f"DROP INDEX {name}")
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_sort = off")
        cursor.execute(f"EXPLAIN {'QUERY PLAN' if connection.vendor == 'sqlite' else ''} {keys}")
        plan = str(cursor.fetchall())
    return "Sort" not in plan and "TEMP B-TREE" not in plan


def page_statement(request: Callable[[], Any]) -> str:
    """Return the statement of a request that reads a page of transactions."""
    with CaptureQueriesContext(connection) as queries:
        request()
    pages = (each["sql"] for each in queries if 'FROM "transactions_transaction" ' in each["sql"])
    (page,) = (sql for sql in pages if "JOIN" in sql and "ORDER BY" in sql)
    return page


def nodes(statement: str) -> list[tuple[str, int]]:
    """Run a statement on PostgreSQL; return the nodes of its plan, each with the number of rows that it returned."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}")
        return [*_nodes(cursor.fetchone()[0][0]["Plan"])]


def _nodes(plan: dict[str, Any]) -> Iterator[tuple[str, int]]:
    yield plan["Node Type"], int(plan["Actual Rows"] * plan["Actual Loops"])
    for part in plan.get("Plans", ()):
        yield from _nodes(part)
