"""Filters that the admin pages of several resources have."""

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter


class StateFilter(DropdownFilter):
    """Narrow a list to the rows of one state, which the queryset has as `state`."""

    title = "state"
    parameter_name = "state"
    states: list[str]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state, state.capitalize()) for state in self.states]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(state=self.value()) if self.value() in self.states else queryset
