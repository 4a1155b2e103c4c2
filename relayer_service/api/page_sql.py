"""The SQL of a page and its total."""

from typing import Any

from django.db import connection
from django.db.models import BooleanField, Model, QuerySet
from django.db.models.expressions import RawSQL

from relayer_service.storage.counting import BUCKET_ROWS, PART_ROWS, PARTS

# The exact total of a table that `storage/counting.py` counts, and the rows of a page, at any size. Names and the
# limit are literals, so that the database can estimate from them and keeps one good plan for all pages.
PAGE = """
WITH buckets AS ({sums} WHERE list_name = '{table}' GROUP BY bucket),
{chosen}
SELECT total, page.*
FROM (SELECT coalesce(sum(CAST(n AS integer)), 0) AS total FROM buckets) AS totals
LEFT JOIN ({rows}) AS page ON TRUE
ORDER BY page.sequence
"""
FIRST_CHOSEN = "chosen AS (SELECT sequence FROM {table} ORDER BY sequence LIMIT {limit})"
# Takes the offset three times. Only sequence numbers are read of the skipped rows.
LATER_CHOSEN = """
     bucket AS (
       SELECT bucket, upto - n AS before FROM (SELECT bucket, n, {running} AS upto FROM buckets) AS ends
       WHERE upto > %s ORDER BY bucket LIMIT 1
     ),
     parts AS (
       {sums} WHERE list_name = '{table}{parts}' AND bucket >= (SELECT bucket FROM bucket) * {bucket_parts}
       AND bucket < ((SELECT bucket FROM bucket) + 1) * {bucket_parts} GROUP BY bucket
     ),
     part AS (
       SELECT bucket, upto - n AS before
       FROM (SELECT bucket, n, {running} + (SELECT before FROM bucket) AS upto FROM parts) AS ends
       WHERE upto > %s ORDER BY bucket LIMIT 1
     ),
     chosen AS (
       SELECT sequence FROM {table} WHERE sequence >= (SELECT bucket FROM part) * {part_rows}
       ORDER BY sequence LIMIT {limit} OFFSET %s - coalesce((SELECT before FROM part), 0)
     )
"""
# PostgreSQL adds `integer` several times as fast as `bigint`.
SUMS = "SELECT bucket, sum(CAST(rows AS integer)) AS n FROM relayer_service_rowdelta"
RUNNING = "sum(CAST(n AS integer)) OVER (ORDER BY bucket)"
# With an array PostgreSQL always looks up each number in the index, whatever it estimates.
IS_CHOSEN = {
    "postgresql": "{table}.sequence = ANY(ARRAY(SELECT sequence FROM chosen))",
    "sqlite": "{table}.sequence IN (SELECT sequence FROM chosen)",
}
# Counting takes as long as reading, so filtered lists are counted up to this number.
MAX_COUNTED = 10_000

# The total, and the rows of a page.
PageRows = tuple[int, list[tuple[Any, ...]]]

_statements: dict[tuple[type[Model], tuple[str, ...], int, bool], str] = {}


def table_page(queryset: QuerySet[Any], columns: tuple[str, ...], offset: int, limit: int) -> PageRows:
    """Return the number of rows of a whole table, and a page of them in the order of creation."""
    assert not queryset.query.where, "the total counts the whole table"
    key = queryset.model, columns, limit, offset == 0
    statement = _statements.get(key) or _statements.setdefault(key, _compile(queryset, *key[1:]))
    with connection.cursor() as cursor:
        cursor.execute(statement, [offset, offset, offset] if offset else [])
        rows = cursor.fetchall()
    # An empty page is one row with the total alone.
    return rows[0][0], [row[2:] for row in rows if row[1] is not None]


def filtered_page(queryset: QuerySet[Any], columns: tuple[str, ...], offset: int, limit: int) -> PageRows:
    """Return the number of rows that match, at most `MAX_COUNTED` + 1, and a page of them."""
    total = count_up_to_cap(queryset)
    if not total or not limit:
        return total, []
    sql, parameters = queryset.values_list(*columns)[offset : offset + limit].query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return total, cursor.fetchall()


def count_up_to_cap(queryset: QuerySet[Any]) -> int:
    """Return the number of rows that match, at most `MAX_COUNTED` + 1."""
    return queryset.order_by()[: MAX_COUNTED + 1].count()


def _compile(queryset: QuerySet[Any], columns: tuple[str, ...], limit: int, is_first: bool) -> str:
    table = queryset.model._meta.db_table
    is_chosen = RawSQL(IS_CHOSEN[connection.vendor].format(table=table), (), output_field=BooleanField())  # noqa: S611  # a constant
    rows = queryset.order_by().filter(is_chosen).values_list("sequence", *columns)
    sql, parameters = rows.query.sql_with_params()
    assert not parameters, "the offset must be the only parameter"
    names: dict[str, Any] = {"table": table, "parts": PARTS, "sums": SUMS, "running": RUNNING, "limit": limit}
    names |= {"bucket_parts": BUCKET_ROWS // PART_ROWS, "part_rows": PART_ROWS}
    chosen = (FIRST_CHOSEN if is_first else LATER_CHOSEN).format(**names)
    return PAGE.format(chosen=chosen, rows=sql, **names)
