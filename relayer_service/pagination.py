"""Pages of a list: the contract's `page` and `per_page`, for any digits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.conf import settings
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from relayer_service import envelope

if TYPE_CHECKING:
    # The framework loads this module while it loads its views.
    from rest_framework.views import APIView

DEFAULT_PER_PAGE = 10
INTEGER = re.compile(r"[0-9]+", re.ASCII)


class PagePagination(BasePagination):
    """Pages start at 1; page 0 is page 1, `per_page=0` gives no items and the true total."""

    def paginate_queryset(self, queryset: Any, request: Request, view: APIView | None = None) -> list[Any]:
        page = self._parameter(request, "page", "1")
        per_page_digits = self._parameter(request, "per_page", str(DEFAULT_PER_PAGE))
        per_page = self._per_page(per_page_digits)
        self.logs = []
        if per_page_digits != str(per_page):
            self.logs.append(f"per_page was lowered to {per_page}, the most this service gives")
        total = queryset.count()
        self.pagination = {
            "current_page": envelope.exact_integer(page),
            "per_page": per_page,
            "total_items": total,
        }
        # A page number too long for the database is past the end of any list.
        start = (int(page) - 1) * per_page if len(page) < 19 else total
        if per_page == 0 or start >= total:
            return []
        return list(queryset[start : start + per_page])

    def get_paginated_response(self, data: Any) -> Response:
        return Response(envelope.success(data, logs=self.logs, pagination=self.pagination))

    @staticmethod
    def _per_page(digits: str) -> int:
        most: int = settings.PAGINATION_MAX_PER_PAGE
        return min(int(digits), most) if len(digits) < 19 else most

    @staticmethod
    def _parameter(request: Request, name: str, default: str) -> str:
        """Give a parameter's digits without leading zeros."""
        values = request.query_params.getlist(name, [default])
        if len(values) > 1:
            raise ValidationError({name: ["this parameter stands twice"]})
        if not INTEGER.fullmatch(values[0]):
            raise ValidationError({name: ["a whole number of at least 0 is required"]})
        digits = values[0].lstrip("0")
        return digits or ("1" if name == "page" else "0")

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        def parameter(name: str, description: str, default: int) -> dict[str, Any]:
            schema = {"type": "integer", "minimum": 0, "default": default}
            return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}

        most = settings.PAGINATION_MAX_PER_PAGE
        return [
            parameter("page", "The page to give; pages start at 1, and 0 reads as 1.", 1),
            parameter("per_page", f"How many items a page has; above {most} it is lowered.", DEFAULT_PER_PAGE),
        ]

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return schema
