"""Pages of a table that `counting.py` counts: the exact total and the rows, in one statement at any size.

The ORM compiles the statement once for each list. Rows are tuples, as they come from the database.
"""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.db.models import BigIntegerField, Model, QuerySet
from django.db.models.expressions import RawSQL

from relayer_service.storage.counting import BUCKET_ROWS

# Takes the table's name, the offset, the number of rows and the offset again. The rows of the page are chosen by
# their numbers only, so that nothing is read of those that are skipped, nor of what they refer to.
PAGE = """
WITH buckets AS (SELECT bucket, sum(rows) AS n FROM relayer_service_rowdelta WHERE list_name = %s GROUP BY bucket),
     ends AS (SELECT bucket, n, sum(n) OVER (ORDER BY bucket) AS upto FROM buckets),
     place AS (SELECT bucket, upto - n AS before FROM ends WHERE upto > %s ORDER BY bucket LIMIT 1),
     chosen AS (
       SELECT sequence FROM {table} WHERE sequence >= (SELECT bucket FROM place) * {bucket_rows}
       ORDER BY sequence LIMIT %s OFFSET %s - coalesce((SELECT before FROM place), 0)
     )
SELECT total, page.*
FROM (SELECT CAST(coalesce(sum(n), 0) AS bigint) AS total FROM buckets) AS totals
LEFT JOIN ({rows}) AS page ON TRUE
ORDER BY page.sequence
"""
CHOSEN = "SELECT sequence FROM chosen"
# More rows than any table has, and within the integers of databases.
MAX_OFFSET = 2**62

Row = tuple[Any, ...]

_statements: dict[tuple[type[Model], tuple[str, ...], str], str] = {}


def page(queryset: QuerySet[Any], columns: tuple[str, ...], offset: int, limit: int) -> tuple[int, list[Row]]:
    """Return the number of all rows, and the columns of a page of them in the order of creation."""
    assert not queryset.query.where, "the total is that of the whole table"
    key = queryset.model, columns, connection.vendor
    statement = _statements.get(key) or _statements.setdefault(key, _compile(queryset, columns))
    offset = min(offset, MAX_OFFSET)
    with connection.cursor() as cursor:
        cursor.execute(statement, [queryset.model._meta.db_table, offset, limit, offset])
        found = cursor.fetchall()
    # Where the page has no row, the total still comes with one.
    return found[0][0], [row[2:] for row in found if row[1] is not None]


def _compile(queryset: QuerySet[Any], columns: tuple[str, ...]) -> str:
    chosen = RawSQL(CHOSEN, (), output_field=BigIntegerField())  # noqa: S611  # a constant
    rows = queryset.order_by().filter(sequence__in=chosen).values_list("sequence", *columns)
    sql, parameters = rows.query.sql_with_params()
    assert not parameters, "a page takes no parameters but its place and size"
    return PAGE.format(table=queryset.model._meta.db_table, bucket_rows=BUCKET_ROWS, rows=sql)
