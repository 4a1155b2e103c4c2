"""List filters: query parameters, which are ignored unless the viewset's `filter_extension` is enabled."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q, QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.filters import BaseFilterBackend
from rest_framework.request import Request

from relayer_service import extensions
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import API_NAMES
from relayer_service.storage.prefixes import starts_with

Rows = QuerySet[Any]


@dataclass(frozen=True)
class ListFilter:
    """A query parameter; `narrow` filters the rows by its value."""

    description: str
    narrow: Callable[[Rows, str], Rows]
    choices: Sequence[str] = ()


def equals(lookup: str, description: str) -> ListFilter:
    return ListFilter(description, lambda rows, value: rows.filter(**{lookup: value}))


def one_of(conditions: Mapping[str, Q], description: str) -> ListFilter:
    """Return a filter by the name of a condition, with underscores for spaces."""
    named = {name.replace(" ", "_"): condition for name, condition in conditions.items()}
    return ListFilter(description, lambda rows, value: rows.filter(named[value]), list(named))


def begins(*columns: str) -> ListFilter:
    """Return a filter by a prefix of any of these columns, which searches as the admin does."""
    names = " or ".join(API_NAMES.get(column, column) for column in columns)

    def narrow(rows: Rows, value: str) -> Rows:
        return rows.filter(reduce(or_, (starts_with(column, value) for column in columns)))

    return ListFilter(f"Prefix of the {names}, case-insensitive.", narrow)


class ListFilters(BaseFilterBackend):
    def filter_queryset(self, request: Request, queryset: Rows, view: Any) -> Rows:
        for name, each in self.enabled(view).items():
            values = request.query_params.getlist(name)
            if not values:
                continue
            if len(values) > 1:
                raise ValidationError({name: ["given more than once"]}, ErrorCode.DUPLICATE)
            if each.choices and values[0] not in each.choices:
                fault = f"must be one of: {', '.join(each.choices)}"
                raise ValidationError({name: [fault]}, ErrorCode.INVALID_CHOICE)
            queryset = each.narrow(queryset, values[0])
        return queryset

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "in": "query",
                "required": False,
                "description": each.description,
                "schema": {"type": "string", **({"enum": list(each.choices)} if each.choices else {})},
                "x-extension": view.filter_extension,
            }
            for name, each in self.enabled(view).items()
        ]

    @staticmethod
    def enabled(view: Any) -> dict[str, ListFilter]:
        """Return the filters of a view, unless their extension is off."""
        extension = getattr(view, "filter_extension", "")
        return view.list_filters if extension and extensions.is_enabled(extension) else {}
