"""Lists of resources."""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.db.models import BooleanField, Model, QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpResponse
from rest_framework.request import Request

from relayer_service.api import envelope
from relayer_service.api.pagination import PageRequest
from relayer_service.api.viewsets import ResourceViewSet
from relayer_service.storage.counting import BUCKET_ROWS, PART_ROWS, PARTS

# The exact total of a table that `storage/counting.py` counts, and the rows of a page, at any size. Takes the offset
# three times. The rows of the page are chosen by their numbers only, so that nothing is read of those that are
# skipped, nor of what they refer to. Names and the number of rows are literals, from which the database can estimate:
# so it makes one good plan for all pages and keeps it.
PAGE = """
WITH buckets AS ({sums} WHERE list_name = '{table}' GROUP BY bucket),
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
SELECT total, page.*
FROM (SELECT coalesce(sum(CAST(n AS integer)), 0) AS total FROM buckets) AS totals
LEFT JOIN ({rows}) AS page ON TRUE
ORDER BY page.sequence
"""
# PostgreSQL adds small integers several times as fast as large ones, and a bucket has a small number of rows.
SUMS = "SELECT bucket, sum(CAST(rows AS integer)) AS n FROM relayer_service_rowdelta"
RUNNING = "sum(CAST(n AS integer)) OVER (ORDER BY bucket)"
# With an array PostgreSQL looks up each number in the index, whatever it thinks of how many there are.
CHOSEN = {
    "postgresql": "{table}.sequence = ANY(ARRAY(SELECT sequence FROM chosen))",
    "sqlite": "{table}.sequence IN (SELECT sequence FROM chosen)",
}
# More rows than any table has, and within the integers of databases.
MAX_OFFSET = 2**62

# Counting takes as long as reading: of what a condition finds, no more is counted.
MAX_COUNTED = 10_000

# The total, and the columns of the rows of a page as the database returns them.
Found = tuple[int, list[tuple[Any, ...]]]

_statements: dict[tuple[type[Model], tuple[str, ...], str, int], str] = {}


class ListMixin(ResourceViewSet):
    """Lists a resource: the whole way from the query parameters to the bytes of a page.

    REST framework's own way (`ListModelMixin`, `ListSerializer`, `Response`) is bypassed, as it takes several times as
    long: it makes an instance of the model and runs all fields for every row, copies the fields for every request, and
    a `Response` keeps its rows until the garbage collector finds them. Here rows are tuples, which come with their
    total from one statement that the ORM compiles once for each list; a function that the serializer prepares once
    (`ResourceSerializer.writer`) turns each into what answers show; and the page is rendered at once.

    To follow a request, set a breakpoint in `list_response`: it has the queryset, the page, the rows and the bytes.
    """

    def list(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        return self.list_response(self.get_queryset())

    def list_response(self, queryset: QuerySet[Any]) -> HttpResponse:
        """Return the page that the request asks for, of the rows that its filters leave."""
        queryset = self.filter_queryset(queryset)
        page = PageRequest.parse(self.request.query_params)
        serializer_class: Any = self.get_serializer_class()
        read = self.filtered_page if queryset.query.where else self.table_page
        total, rows = read(queryset, serializer_class.columns(), min(page.offset, MAX_OFFSET), page.per_page)
        if queryset.query.where and total > MAX_COUNTED:
            total = MAX_COUNTED
            page.logs.append(f"total_items is capped: there are more than {MAX_COUNTED}")
        shown = [*map(serializer_class.writer(), rows)]
        renderer = self.request.accepted_renderer
        body = renderer.render(envelope.Page(shown, page.pagination(total), page.logs))
        return HttpResponse(body, content_type=renderer.media_type)

    @staticmethod
    def table_page(queryset: QuerySet[Any], columns: tuple[str, ...], offset: int, limit: int) -> Found:
        """Return the number of all rows of a table, and a page of them in the order of creation."""
        assert not queryset.query.where, "the total is that of the whole table"
        key = queryset.model, columns, connection.vendor, limit
        statement = _statements.get(key) or _statements.setdefault(key, _compile(queryset, columns, limit))
        with connection.cursor() as cursor:
            cursor.execute(statement, [offset, offset, offset])
            found = cursor.fetchall()
        # Where the page has no row, the total still comes with one.
        return found[0][0], [row[2:] for row in found if row[1] is not None]

    @staticmethod
    def filtered_page(queryset: QuerySet[Any], columns: tuple[str, ...], offset: int, limit: int) -> Found:
        """Return how many rows a condition finds, at most one more than `MAX_COUNTED`, and a page of them."""
        total = queryset.order_by()[: MAX_COUNTED + 1].count()
        if not total or not limit:
            return total, []
        sql, parameters = queryset.values_list(*columns)[offset : offset + limit].query.sql_with_params()
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return total, cursor.fetchall()


def _compile(queryset: QuerySet[Any], columns: tuple[str, ...], limit: int) -> str:
    table = queryset.model._meta.db_table
    chosen = RawSQL(CHOSEN[connection.vendor].format(table=table), (), output_field=BooleanField())  # noqa: S611  # a constant
    rows = queryset.order_by().filter(chosen).values_list("sequence", *columns)
    sql, parameters = rows.query.sql_with_params()
    assert not parameters, "a page takes no parameters but its place"
    return PAGE.format(
        table=table,
        parts=PARTS,
        bucket_parts=BUCKET_ROWS // PART_ROWS,
        part_rows=PART_ROWS,
        sums=SUMS,
        running=RUNNING,
        limit=limit,
        rows=sql,
    )
