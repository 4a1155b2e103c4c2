"""Lists of any size: sorted by what has an index, with tabs for the states of their rows."""

from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG, ORDER_VAR, PAGE_VAR
from django.db.models import QuerySet
from django.db.models.expressions import OrderBy
from django.http import HttpRequest
from unfold.views import ChangeList

from relayer_service.admin.filters import StateFilter
from relayer_service.storage.nul import has_nul


class ResourceList(ChangeList):
    tab: str | None = None
    filter_specs: list[Any]

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        """Return the rows. A filter by state is applied like the others, and shown as tabs instead of among them."""
        if any(has_nul(value) for _, values in request.GET.lists() for value in values):
            raise IncorrectLookupParameters
        rows: QuerySet[Any] = super().get_queryset(request, *args, **kwargs)
        tabs = [spec for spec in self.filter_specs if isinstance(spec, StateFilter)]
        self.tab = next((spec.value() for spec in tabs if spec.value()), None)
        self.filter_specs = [spec for spec in self.filter_specs if spec not in tabs]
        self.has_filters = bool(self.filter_specs)
        self.has_active_filters = any(spec.used_parameters for spec in self.filter_specs)
        return rows

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        # What people read, and what they are asked whether to select all of.
        self.result_count = self.paginator.total

    def get_ordering_field(self, field_name: Any) -> Any:
        """Return what a column is sorted by, or None if no index has that order: whoever asks for it by hand too."""
        return self.model_admin.sort_orders.get(field_name)

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        if chosen := self.params.get(ORDER_VAR):
            # No index has the order of two columns.
            self.params[ORDER_VAR] = chosen.split(".")[0]
        ordering: list[Any] = super().get_ordering(request, queryset)
        if chosen and len(ordering) > 1:
            # As the index ends: in the same direction.
            return [ordering[0], "-pk" if is_descending(ordering[0]) else "pk"]
        return ordering


def is_descending(order: Any) -> bool:
    return order.descending if isinstance(order, OrderBy) else str(order).startswith("-")


def tabs(request: HttpRequest, state_filter: type[StateFilter]) -> list[dict[str, Any]]:
    """Return a tab for each state, in the form of the theme; each keeps the search and the other filters."""
    name = state_filter.parameter_name
    kept = request.GET.copy()
    for each in (PAGE_VAR, ERROR_FLAG, name):
        kept.pop(each, None)
    current = request.GET.get(name)
    states = list(state_filter.current_conditions())
    items = [(None, "All"), *((state, state.capitalize()) for state in states)]
    found = []
    for state, title in items:
        query = kept.copy()
        if state:
            query[name] = state
        active = state == (current if current in states else None)
        found.append({"title": title, "link": f"?{query.urlencode()}", "active": active, "has_permission": True})
    return found
