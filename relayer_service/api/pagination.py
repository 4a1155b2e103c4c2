"""Pagination: the contract's `page` and `per_page`, of any size; and cursors, for lists that grow meanwhile."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, ClassVar

import orjson
from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.db.models import Q, QuerySet
from django.http import QueryDict
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from relayer_service.api import envelope, page_sql
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import MAX_FAULTS
from relayer_service.api.filters import ListFilters
from relayer_service.api.serializers import shown_name
from relayer_service.storage.newest import page_of

DEFAULT_PER_PAGE = 10
INTEGER = re.compile(r"[0-9]+", re.ASCII)
# Larger numbers are past the end of any list, and out of the database's range.
MAX_DIGITS = 18
# More rows than any table has, and within the range of the database's integers.
MAX_OFFSET = 2**62
IGNORED_BODY = "the body was ignored: this operation accepts none"
IGNORED_PARAMETER = "{}: unknown query parameter, ignored"
CURSOR = "cursor"
INVALID_CURSOR = "invalid; use the next_cursor of an earlier response of this list"
CURSOR_DESCRIPTION = (
    "The `next_cursor` of an earlier response, for the rows that follow it, whatever was added since. "
    "Cannot be combined with `page`."
)


class PagePagination(BasePagination):
    """The contract's `page` and `per_page`. Pages start at 1; page 0 is page 1."""

    # Its component of the OpenAPI document.
    component: ClassVar[str] = "Pagination"
    # The query parameters that it reads.
    parameters: ClassVar[tuple[str, ...]] = ("page", "per_page")

    digits: str
    per_page: int
    total: int
    # The log messages of the response.
    logs: list[str]

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> Any:
        query = request.query_params
        self.read_query(query, request.path_info)
        if query:
            known = {*self.parameters, *ListFilters.enabled(view), *view.query_parameters}
            unknown = islice((name for name in query if name not in known), MAX_FAULTS)
            self.logs += [IGNORED_PARAMETER.format(shown_name(name)) for name in unknown]
        if view.has_ignored_body:
            self.logs.append(IGNORED_BODY)
        # Not a list: a serializer keeps its arguments, and would so keep the rows until the garbage collector runs.
        return iter(self.read_rows(queryset, view))

    def read_query(self, query: QueryDict, path: str) -> None:
        self.digits = _digits(query, "page", 1)
        self.per_page = _number(_digits(query, "per_page", DEFAULT_PER_PAGE))
        self.logs = []
        maximum: int = settings.PAGINATION_MAX_PER_PAGE
        if self.per_page > maximum:
            self.per_page = maximum
            self.logs.append(f"per_page was lowered to {maximum}, the maximum")

    def read_rows(self, queryset: Any, view: Any) -> Iterable[Any]:
        """Return the rows of the page, and set `total`."""
        self.total = queryset.count() if isinstance(queryset, QuerySet) else len(queryset)
        rows: Iterable[Any] = queryset[self.offset : self.offset + self.per_page]
        return rows

    def get_paginated_response(self, data: Any) -> Response:
        return Response(envelope.Page(data, self.logs, self.pagination()))

    def pagination(self) -> dict[str, Any]:
        # Written as text, as orjson writes integers of up to 64 bits only.
        page = orjson.Fragment(self.digits if self.digits != "0" else "1")
        return {"current_page": page, "per_page": self.per_page, "total_items": self.total}

    @property
    def offset(self) -> int:
        return min(max(0, _number(self.digits) - 1) * self.per_page, MAX_OFFSET)

    def capped(self, total: int) -> int:
        """Return a total of at most `MAX_COUNTED`, with a note in the response if there are more."""
        if total > page_sql.MAX_COUNTED:
            self.logs.append(f"total_items is capped: there are more than {page_sql.MAX_COUNTED}")
        return min(total, page_sql.MAX_COUNTED)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        def parameter(name: str, description: str, default: int) -> dict[str, Any]:
            # Generated clients always send a parameter with a default, and a cursor cannot be combined with a page.
            has_default = CURSOR not in self.parameters or name != "page"
            schema = {"type": "integer", "minimum": 0, **({"default": default} if has_default else {})}
            return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}

        maximum = settings.PAGINATION_MAX_PER_PAGE
        return [
            parameter("page", "The number of the page. Pages start at 1; 0 is treated as 1.", 1),
            parameter("per_page", f"The number of items per page; at most {maximum}.", DEFAULT_PER_PAGE),
        ]


class TablePagination(PagePagination):
    """Pages of a table of any size, in the order of creation.

    Its rows are tuples of the serializer's `columns`, as instances take several times as long. They come with their
    total from one statement that the ORM compiles once per list, unless they are filtered.
    """

    def read_rows(self, queryset: Any, view: Any) -> Iterable[Any]:
        columns = view.get_serializer_class().columns()
        if not queryset.query.where:
            self.total, rows = page_sql.table_page(queryset, columns, self.offset, self.per_page)
            return rows
        total, rows = page_sql.filtered_page(queryset, columns, self.offset, self.per_page)
        self.total = self.capped(total)
        return rows


class CursorPagination(PagePagination):
    """A page, or the rows that follow the last one of an earlier response, whose position is the cursor.

    Rows that are added meanwhile shift pages, but not what follows a position. A cursor is signed for the path of its
    list, so that only the service makes them.
    """

    component: ClassVar[str] = "CursorPagination"
    parameters: ClassVar[tuple[str, ...]] = (*PagePagination.parameters, CURSOR)
    # The columns that the rows are sorted by, each descending; the last one is unique.
    columns: tuple[str, ...]

    path: str
    # That the page follows, and that of its last row if others follow it.
    position: Sequence[Any] | None = None
    last: Sequence[Any] | None = None

    def read_query(self, query: QueryDict, path: str) -> None:
        super().read_query(query, path)
        self.path = path.rstrip("/")
        cursors = query.getlist(CURSOR)
        if len(cursors) > 1:
            raise ValidationError({CURSOR: ["given more than once"]}, ErrorCode.DUPLICATE)
        if cursors and "page" in query:
            raise ValidationError({CURSOR: ["cannot be combined with page"]})
        if cursors:
            self.position = self._read(cursors[0])

    def read_rows(self, queryset: Any, view: Any) -> Iterable[Any]:
        if self.position is None:
            self.total = self.capped(page_sql.count_up_to_cap(queryset))
        elif len(self.position) != len(self.columns):
            raise ValidationError({CURSOR: [INVALID_CURSOR]})
        else:
            queryset = queryset.filter(self._follows(self.position))
        if not self.per_page or (self.position is None and not self.total):
            return []
        return self._page(self.fetch(page_of(queryset, self.offset, self.offset + self.per_page + 1), view))

    def fetch(self, rows: QuerySet[Any], view: Any) -> Iterable[Any]:
        """Return these rows as the serializer reads them."""
        # The position of a row comes after its columns.
        return rows.values_list(*view.get_serializer_class().columns(), *self.columns)

    def position_of(self, row: Any) -> Sequence[Any]:
        position: Sequence[Any] = row[-len(self.columns) :]
        return position

    def pagination(self) -> dict[str, Any]:
        pagination = super().pagination() if self.position is None else {"per_page": self.per_page}
        if self.last is None:
            return pagination
        position = [value.isoformat() if isinstance(value, datetime) else value for value in self.last]
        return {**pagination, "next_cursor": self._signer.sign_object(position)}

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        cursor = {"name": CURSOR, "in": "query", "required": False, "description": CURSOR_DESCRIPTION}
        return [*super().get_schema_operation_parameters(view), {**cursor, "schema": {"type": "string"}}]

    def _page(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of the page, as large ones are not kept; set `last` if others follow."""
        for number, row in enumerate(rows, 1):
            if number <= self.per_page:
                position = self.position_of(row)
                yield row
            else:
                self.last = position

    @property
    def _signer(self) -> Signer:
        return Signer(sep=".", salt=f"{CURSOR}:{self.path}")

    def _read(self, cursor: str) -> list[Any]:
        try:
            position = self._signer.unsign_object(cursor)
            return [datetime.fromisoformat(value) if isinstance(value, str) else value for value in position]
        except BadSignature:
            raise ValidationError({CURSOR: [INVALID_CURSOR]}) from None

    def _follows(self, position: Sequence[Any]) -> Q:
        *leading, (column, value) = zip(self.columns, position, strict=True)
        condition = Q(**{f"{column}__lt": value})
        for column, value in reversed(leading):
            # The first part alone is a range of the index.
            condition = Q(**{f"{column}__lte": value}) & (Q(**{f"{column}__lt": value}) | condition)
        return condition


def _digits(query: QueryDict, name: str, default: int) -> str:
    values = query.getlist(name, [str(default)])
    if len(values) > 1:
        raise ValidationError({name: ["given more than once"]}, ErrorCode.DUPLICATE)
    if not INTEGER.fullmatch(values[0]):
        raise ValidationError({name: ["a whole number of at least 0 is required"]})
    return values[0].lstrip("0") or "0"


def _number(digits: str) -> int:
    return int(digits) if len(digits) <= MAX_DIGITS else 10**MAX_DIGITS
