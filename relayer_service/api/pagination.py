"""Pagination: the contract's `page` and `per_page`, of any size; and cursors, for lists that grow meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

import orjson
from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.db.models import Q, QuerySet
from django.http import QueryDict
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination

from relayer_service.api.error_codes import ErrorCode
from relayer_service.storage.newest import page_of

if TYPE_CHECKING:
    # REST framework imports this module while it imports its views.
    from rest_framework.views import APIView

DEFAULT_PER_PAGE = 10
INTEGER = re.compile(r"[0-9]+", re.ASCII)
# Larger numbers are past the end of any list, and out of the database's range.
MAX_DIGITS = 18
# More rows than any table has, and within the range of the database's integers.
MAX_OFFSET = 2**62
CURSOR = "cursor"
INVALID_CURSOR = "invalid; use the next_cursor of an earlier response of this list"
CURSOR_DESCRIPTION = (
    "The `next_cursor` of an earlier response, for the rows that follow it, whatever was added since. "
    "Cannot be combined with `page`."
)


@dataclass
class PageRequest(BasePagination):
    """The requested page. Pages start at 1; page 0 is page 1."""

    # Its component of the OpenAPI document.
    component: ClassVar[str] = "Pagination"
    # The query parameters that it reads.
    parameters: ClassVar[tuple[str, ...]] = ("page", "per_page")

    digits: str = "1"
    per_page: int = DEFAULT_PER_PAGE
    logs: list[str] = field(default_factory=list)

    @classmethod
    def from_request(cls, query: QueryDict, path: str) -> Self:
        return cls.parse(query)

    @classmethod
    def parse(cls, query: QueryDict) -> Self:
        digits = _digits(query, "page", 1)
        per_page = _number(_digits(query, "per_page", DEFAULT_PER_PAGE))
        maximum: int = settings.PAGINATION_MAX_PER_PAGE
        if per_page <= maximum:
            return cls(digits, per_page)
        return cls(digits, maximum, [f"per_page was lowered to {maximum}, the maximum"])

    @property
    def offset(self) -> int:
        return min(max(0, _number(self.digits) - 1) * self.per_page, MAX_OFFSET)

    def pagination(self, total: int) -> dict[str, Any]:
        # Written as text, as orjson writes integers of up to 64 bits only.
        page = orjson.Fragment(self.digits if self.digits != "0" else "1")
        return {"current_page": page, "per_page": self.per_page, "total_items": total}

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        def parameter(name: str, description: str, default: int) -> dict[str, Any]:
            # Generated clients always send a parameter with a default, and a cursor cannot be combined with a page.
            shown = {} if CURSOR in self.parameters and name == "page" else {"default": default}
            schema = {"type": "integer", "minimum": 0, **shown}
            return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}

        maximum = settings.PAGINATION_MAX_PER_PAGE
        return [
            parameter("page", "The number of the page. Pages start at 1; 0 is treated as 1.", 1),
            parameter("per_page", f"The number of items per page; at most {maximum}.", DEFAULT_PER_PAGE),
        ]

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return schema


@dataclass
class CursorPageRequest(PageRequest):
    """A page, or the rows that follow the last one of an earlier response, whose position is the cursor.

    Rows that are added meanwhile shift pages, but not what follows a position. A cursor is signed for the path of its
    list, so that only the service makes them.
    """

    component: ClassVar[str] = "CursorPagination"
    parameters: ClassVar[tuple[str, ...]] = (*PageRequest.parameters, CURSOR)
    # The columns that the rows are sorted by, each descending; the last one is unique.
    columns: ClassVar[tuple[str, ...]]

    path: str = ""
    position: Sequence[Any] | None = None

    @classmethod
    def from_request(cls, query: QueryDict, path: str) -> Self:
        page = cls.parse(query)
        page.path = path.rstrip("/")
        cursors = query.getlist(CURSOR)
        if len(cursors) > 1:
            raise ValidationError({CURSOR: ["given more than once"]}, ErrorCode.DUPLICATE)
        if cursors and "page" in query:
            raise ValidationError({CURSOR: ["cannot be combined with page"]})
        if cursors:
            page.position = page._read(cursors[0])
        return page

    def read(self, rows: QuerySet[Any], fetch: Callable[[QuerySet[Any]], list[Any]] = list) -> tuple[list[Any], bool]:
        """Return the rows of the page, in the order of `columns`, and whether others follow."""
        if not self.per_page:
            return [], False
        if self.position is not None:
            rows = rows.filter(self._follows(self.position))
        found = fetch(page_of(rows, self.offset, self.offset + self.per_page + 1))
        return found[: self.per_page], len(found) > self.per_page

    def pagination(self, total: int | None, last: Sequence[Any] | None = None) -> dict[str, Any]:
        """Return the pagination of a response, with a cursor if rows follow the position of the last one."""
        shown = {"per_page": self.per_page} if total is None else super().pagination(total)
        position = [value.isoformat() if isinstance(value, datetime) else value for value in last or ()]
        return shown if last is None else {**shown, "next_cursor": self._signer.sign_object(position)}

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        cursor = {"name": CURSOR, "in": "query", "required": False, "description": CURSOR_DESCRIPTION}
        return [*super().get_schema_operation_parameters(view), {**cursor, "schema": {"type": "string"}}]

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
