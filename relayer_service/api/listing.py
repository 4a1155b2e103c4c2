"""Lists of resources: the work of a page is the page, not the framework around it.

A page is one statement whatever the size of the table: the exact total, the place where the page begins, and its
rows (`counting.py`). It is compiled by the ORM once. Its rows come as plain tuples, which the view's `represent` turns
into what goes on the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import orjson
from django.db import connection
from django.db.models import BigIntegerField, QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpResponse
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request

from relayer_service.api import envelope
from relayer_service.api.pagination import PageRequest
from relayer_service.api.viewsets import ResourceView
from relayer_service.storage import counting

# More than any table has, and no more than databases take.
FARTHEST = 2**62


class PageQuery:
    """The columns of a queryset's rows, a page at a time, in the order of creation."""

    def __init__(self, queryset: QuerySet[Any], *columns: str) -> None:
        self.queryset = queryset
        self.columns = columns
        self.table: str = queryset.model._meta.db_table
        self.sql = cache(self._compile)

    def _compile(self, vendor: str) -> str:
        """Make the SQL, once for each kind of database."""
        chosen = RawSQL(counting.CHOSEN, (), output_field=BigIntegerField())  # noqa: S611  # a constant of ours
        rows = self.queryset.order_by().filter(sequence__in=chosen).values_list("sequence", *self.columns)
        sql, parameters = rows.query.sql_with_params()
        assert not parameters, "a page takes no parameters but its place and size"
        return counting.PAGE.format(table=self.table, bucket_rows=counting.BUCKET_ROWS, rows=sql)

    def page(self, page: PageRequest) -> tuple[int, list[tuple[Any, ...]]]:
        """Give the exact total, and the rows of the page."""
        offset = min(page.offset, FARTHEST)
        with connection.cursor() as cursor:
            cursor.execute(self.sql(connection.vendor), [self.table, offset, page.per_page, offset])
            found = cursor.fetchall()
        # Where the page has no row, the total still comes with one.
        return int(found[0][0]), [row[2:] for row in found if row[1] is not None]


class ResourceListMixin(ListModelMixin, ResourceView):
    """Answer GET with a page of `page_query`."""

    page_query: PageQuery
    # Gives one row, from the columns of the query, as answers show it.
    represent: Callable[..., dict[str, Any]]

    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        page = PageRequest.parse(request.query_params)
        total, rows = self.page_query.page(page)
        data = [self.represent(*row) for row in rows]
        body = envelope.success(data, logs=page.logs, pagination=page.pagination(total))
        return HttpResponse(orjson.dumps(body), content_type="application/json")
