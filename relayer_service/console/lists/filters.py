"""List filters shared by the admin pages of several resources."""

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import DropdownFilter, RangeDateFilter
from unfold.utils import parse_date_str

ONE_DAY = timedelta(days=1)
LAST = date.max - ONE_DAY

# Filters rows by the start or the end of a range of times.
Bound = Callable[[QuerySet[Any], datetime], QuerySet[Any]]


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
        """Return the rows of the state, or all if tabs are counted: then the list filters them by state last.

        A search that keeps only some of many matches must find those of the state.
        """
        return queryset if self.is_counted else self.of_state(queryset)

    def of_state(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        condition = self.current_conditions().get(self.value())
        return rows if condition is None else rows.filter(condition)


class DayRangeFilter(RangeDateFilter):
    """Filters by the first and the last day."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        first, last = (parse_date_str(self.used_parameters.get(f"{self.field_path}_{end}")) for end in ("from", "to"))
        queryset = self.starting(queryset, midnight(first)) if first else queryset
        return self.ending(queryset, midnight(min(last, LAST) + ONE_DAY)) if last else queryset

    def starting(self, rows: QuerySet[Any], moment: datetime) -> QuerySet[Any]:
        return rows.filter(**{f"{self.field_path}__gte": moment})

    def ending(self, rows: QuerySet[Any], moment: datetime) -> QuerySet[Any]:
        return rows.filter(**{f"{self.field_path}__lt": moment})


class PeriodFilter(DropdownFilter):
    """Filters by days until today. They stay relative in a saved filter."""

    starting: Bound
    ending: Bound
    # The first and the last day, in days before today, with their name.
    periods = {
        "today": (0, 0, "Today"),
        "yesterday": (1, 1, "Yesterday"),
        "2-days": (1, 0, "Since yesterday"),
        "7-days": (6, 0, "Last 7 days"),
        "30-days": (29, 0, "Last 30 days"),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(value, name) for value, (*_, name) in self.periods.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in self.periods:
            return queryset
        first, last, _ = self.periods[self.value()]
        today = timezone.localdate()
        started = self.starting(queryset, midnight(today - first * ONE_DAY))
        return self.ending(started, midnight(today + (1 - last) * ONE_DAY))


def midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, timezone.get_current_timezone())
