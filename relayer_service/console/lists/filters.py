"""List filters shared by the admin pages of several resources."""

from collections.abc import Mapping
from datetime import datetime, time
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import DropdownFilter, RangeDateFilter
from unfold.utils import parse_date_str


class StateFilter(DropdownFilter):
    """Filters a list by the condition of one state. It is shown as tabs above the list."""

    title = "state"
    parameter_name = "state"
    conditions: Mapping[str, Q]
    # Whether the tabs show their number of rows. It takes an index for each state, or few rows.
    is_counted = True

    @classmethod
    def current_conditions(cls) -> Mapping[str, Q]:
        """Return the conditions by state, as of now for states that depend on the time."""
        return cls.conditions

    @staticmethod
    def label(state: str) -> str:
        return "OK" if state == "ok" else state.capitalize()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state, self.label(state)) for state in self.current_conditions()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        condition = self.current_conditions().get(self.value())
        return queryset if condition is None else queryset.filter(condition)


class DayRangeFilter(RangeDateFilter):
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        for end, lookup, hour in (("from", "gte", time.min), ("to", "lte", time.max)):
            day = parse_date_str(self.used_parameters.get(f"{self.field_path}_{end}"))
            if day:
                moment = datetime.combine(day, hour, timezone.get_current_timezone())
                queryset = queryset.filter(**{f"{self.field_path}__{lookup}": moment})
        return queryset
