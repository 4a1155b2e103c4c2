"""Pagination: the contract's `page` and `per_page`, of any size."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import orjson
from django.conf import settings
from django.http import QueryDict
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination

from relayer_service.api.error_codes import ErrorCode

if TYPE_CHECKING:
    # REST framework imports this module while it imports its views.
    from rest_framework.views import APIView

PARAMETERS = ("page", "per_page")
DEFAULT_PER_PAGE = 10
INTEGER = re.compile(r"[0-9]+", re.ASCII)
# Larger numbers are past the end of any list, and out of the database's range.
MAX_DIGITS = 18


@dataclass
class PageRequest(BasePagination):
    """The requested page. Pages start at 1; page 0 is page 1."""

    digits: str = "1"
    per_page: int = DEFAULT_PER_PAGE
    logs: list[str] = field(default_factory=list)

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
        return max(0, _number(self.digits) - 1) * self.per_page

    def pagination(self, total: int) -> dict[str, Any]:
        # Written as text, as orjson writes integers of up to 64 bits only.
        page = orjson.Fragment(self.digits if self.digits != "0" else "1")
        return {"current_page": page, "per_page": self.per_page, "total_items": total}

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        def parameter(name: str, description: str, default: int) -> dict[str, Any]:
            schema = {"type": "integer", "minimum": 0, "default": default}
            return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}

        maximum = settings.PAGINATION_MAX_PER_PAGE
        return [
            parameter("page", "The number of the page. Pages start at 1; 0 is treated as 1.", 1),
            parameter("per_page", f"The number of items per page; at most {maximum}.", DEFAULT_PER_PAGE),
        ]

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return schema


def _digits(query: QueryDict, name: str, default: int) -> str:
    values = query.getlist(name, [str(default)])
    if len(values) > 1:
        raise ValidationError({name: ["given more than once"]}, ErrorCode.DUPLICATE)
    if not INTEGER.fullmatch(values[0]):
        raise ValidationError({name: ["a whole number of at least 0 is required"]})
    return values[0].lstrip("0") or "0"


def _number(digits: str) -> int:
    return int(digits) if len(digits) <= MAX_DIGITS else 10**MAX_DIGITS
