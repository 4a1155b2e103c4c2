"""Narrowing a list by query parameters, which are ignored without the extension that a viewset declares for them."""

from __future__ import annotations

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
from relayer_service.storage.prefixes import starts_with

Rows = QuerySet[Any]


@dataclass(frozen=True)
class ListFilter:
    """One query parameter; `narrow` returns the rows that it leaves."""

    description: str
    narrow: Callable[[Rows, str], Rows]
    choices: Sequence[str] = ()


def equals(lookup: str, description: str) -> ListFilter:
    return ListFilter(description, lambda rows, value: rows.filter(**{lookup: value}))


def one_of(conditions: Mapping[str, Q], description: str) -> ListFilter:
    """Return a filter by the name of a condition, in which spaces are underscores."""
    named = {name.replace(" ", "_"): condition for name, condition in conditions.items()}
    return ListFilter(description, lambda rows, value: rows.filter(named[value]), list(named))


def begins(*columns: str) -> ListFilter:
    """Return a filter by the beginning of one of these columns, by the rule of every search in the admin."""
    names = " or ".join("id" if column == "identifier" else column for column in columns)

    def narrow(rows: Rows, value: str) -> Rows:
        return rows.filter(reduce(or_, (starts_with(column, value) for column in columns)))

    return ListFilter(f"Only those whose {names} begins with this, in upper or lower case.", narrow)


class ListFilters(BaseFilterBackend):
    """Reads the parameters that a viewset declares in `list_filters`, if `filter_extension` is on."""

    def filter_queryset(self, request: Request, queryset: Rows, view: Any) -> Rows:
        for name, each in self._filters(view).items():
            values = request.query_params.getlist(name)
            if not values:
                continue
            if len(values) > 1:
                raise ValidationError({name: ["this parameter stands twice"]})
            if each.choices and values[0] not in each.choices:
                raise ValidationError({name: [f"must be one of: {', '.join(each.choices)}"]})
            # PostgreSQL takes no NUL, so that no row has one.
            queryset = queryset.none() if "\0" in values[0] else each.narrow(queryset, values[0])
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
            for name, each in self._filters(view).items()
        ]

    @staticmethod
    def _filters(view: Any) -> dict[str, ListFilter]:
        extension = getattr(view, "filter_extension", "")
        return view.list_filters if extension and extensions.is_on(extension) else {}
