"""List filters: query parameters, which are ignored unless the viewset's `extension` is enabled.

The same filters in the body of a request choose the rows of a job.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q, QuerySet
from drf_spectacular.drainage import get_override
from rest_framework.exceptions import ValidationError
from rest_framework.filters import BaseFilterBackend
from rest_framework.request import Request

from relayer_service import extensions
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import API_NAMES
from relayer_service.api.serializers import BodySerializer, ChoiceField, StringField, TimeField
from relayer_service.database.prefixes import starts_with

Rows = QuerySet[Any]
Applied = Callable[[Rows, Any], Rows]


@dataclass(frozen=True)
class ListFilter:
    """A query parameter; `apply` filters the rows by its value."""

    description: str
    apply: Applied
    choices: Sequence[str] = ()
    # The field of its value, which any text is unless this is set.
    value_field: type[Any] | None = None

    def field(self) -> Any:
        """Return the field of a body with this filter, which checks and converts a value."""
        options: dict[str, Any] = {"required": False, "help_text": self.description}
        if self.choices:
            return ChoiceField(self.choices, **options)
        return (self.value_field or StringField)(**options)

    def read(self, text: str) -> Any:
        """Return the value of a query parameter."""
        return self.field().run_validation(text) if self.choices or self.value_field else text


def equals(lookup: str, description: str) -> ListFilter:
    return ListFilter(description, lambda rows, value: rows.filter(**{lookup: value}))


def one_of(conditions: Mapping[str, Q], description: str) -> ListFilter:
    """Return a filter by the name of a condition, with underscores for spaces."""
    named = {name.replace(" ", "_"): condition for name, condition in conditions.items()}
    return ListFilter(description, lambda rows, value: rows.filter(named[value]), list(named))


def column_range(column: str, name: str) -> dict[str, ListFilter]:
    """Return filters by the start and the end of a range of times in a column."""
    return time_range(
        name,
        lambda rows, value: rows.filter(**{f"{column}__gte": value}),
        lambda rows, value: rows.filter(**{f"{column}__lt": value}),
    )


def time_range(
    name: str, start: Callable[[Rows, Any], Rows], end: Callable[[Rows, Any], Rows]
) -> dict[str, ListFilter]:
    """Return filters by the start and the end of a range of times, named like `created_from` and `created_before`."""
    return {
        f"{name}_from": ListFilter(
            f"Only those {name} at this time or later: RFC 3339, with its offset.", start, value_field=TimeField
        ),
        f"{name}_before": ListFilter(
            f"Only those {name} before this time: RFC 3339, with its offset.", end, value_field=TimeField
        ),
    }


def prefix_filter(*columns: str) -> ListFilter:
    """Return a filter by a prefix of any of these columns, which searches as the admin does."""
    names = " or ".join(API_NAMES.get(column, column) for column in columns)

    def starting_with(rows: Rows, value: str) -> Rows:
        return rows.filter(reduce(or_, (starts_with(column, value) for column in columns)))

    return ListFilter(f"Prefix of the {names}, case-insensitive.", starting_with)


class ListFilters(BaseFilterBackend):
    def filter_queryset(self, request: Request, queryset: Rows, view: Any) -> Rows:
        for name, list_filter in self.enabled(view).items():
            values = request.query_params.getlist(name)
            if not values:
                continue
            if len(values) > 1:
                raise ValidationError({name: ["given more than once"]}, ErrorCode.DUPLICATE)
            try:
                value = list_filter.read(values[0])
            except ValidationError as error:
                raise ValidationError({name: error.detail}) from None
            queryset = list_filter.apply(queryset, value)
        return queryset

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "in": "query",
                "required": False,
                "description": list_filter.description,
                "schema": _schema(list_filter),
                "x-extension": view.extension,
            }
            for name, list_filter in self.enabled(view).items()
        ]

    @staticmethod
    def enabled(view: Any) -> dict[str, ListFilter]:
        """Return the filters of a view, unless their extension is off."""
        return view.list_filters if extensions.is_enabled(view.extension) else {}


def _schema(list_filter: ListFilter) -> dict[str, Any]:
    if list_filter.choices:
        return {"type": "string", "enum": list(list_filter.choices)}
    schema: dict[str, Any] = get_override(list_filter.value_field, "field", {"type": "string"})
    return schema


def filter_serializer(name: str, doc: str, filters: Mapping[str, ListFilter]) -> Any:
    """Return the class of an object with the filters of a list, all optional; `apply_filters` applies its values."""
    fields = {parameter: list_filter.field() for parameter, list_filter in filters.items()}
    return type(name, (BodySerializer,), {"__doc__": doc, "__module__": __name__, **fields})


def apply_filters(rows: Rows, filters: Mapping[str, ListFilter], values: Mapping[str, Any]) -> Rows:
    """Return the rows that match all values of a body's filter."""
    for name, value in values.items():
        rows = filters[name].apply(rows, value)
    return rows
