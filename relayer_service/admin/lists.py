"""Lists of any size: sorted by indexed columns, with a tab per state and a bounded number of pages."""

from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG, ORDER_VAR, PAGE_VAR
from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.db.models.expressions import OrderBy
from django.http import HttpRequest
from django.utils.functional import cached_property
from unfold.views import ChangeList

from relayer_service.admin.filters import StateFilter
from relayer_service.storage import counting
from relayer_service.storage.nul import has_nul

# Number of rows that a list has pages for, and that an action can select.
MAX_LISTED = 10_000


class NewestPaginator(Paginator):  # type: ignore[type-arg]  # Django cannot subscript it
    """Has pages of the first rows only: counting or skipping a million rows takes as long as reading them."""

    template_name = "admin/newest_pagination.html"
    object_list: Any

    @cached_property
    def total(self) -> int:
        """The exact total of an unfiltered list with row counts, else at most MAX_LISTED."""
        whole = counting.total(self.object_list.model) if not self.object_list.query.where else None
        # Without an order, which Django would sort by before it counts.
        return int(self.object_list.order_by()[:MAX_LISTED].count()) if whole is None else whole

    @cached_property
    def count(self) -> int:
        return min(self.total, MAX_LISTED)

    @property
    def has_more(self) -> bool:
        return self.count == MAX_LISTED

    @property
    def is_exact(self) -> bool:
        return self.total != MAX_LISTED

    def page(self, number: int | str) -> Page[Any]:
        """Return a page. Rows before it are skipped in the index alone, without their joins."""
        number = self.validate_number(number)
        first = (number - 1) * self.per_page
        if not first:
            return super().page(number)
        keys = list(self.object_list.values_list("pk", flat=True)[first : min(first + self.per_page, self.count)])
        return Page(self.object_list.filter(pk__in=keys), number, self)


class ResourceList(ChangeList):
    tab: str | None = None
    filter_specs: list[Any]

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        """Return the filtered rows. The filter by state is removed from the sidebar, as the page shows it as tabs."""
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
        self.result_count = self.paginator.total

    def get_ordering_field(self, field_name: Any) -> Any:
        """Return the order of a column, or None without an index, even if the URL requests it."""
        return self.model_admin.sort_orders.get(field_name)

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        if chosen := self.params.get(ORDER_VAR):
            # No index covers two columns.
            self.params[ORDER_VAR] = chosen.split(".")[0]
        ordering: list[Any] = super().get_ordering(request, queryset)
        if chosen and len(ordering) > 1:
            first = ordering[0]
            is_descending = first.descending if isinstance(first, OrderBy) else str(first).startswith("-")
            # The key, in the same direction, as the index ends.
            return [first, "-pk" if is_descending else "pk"]
        return ordering


def tabs(request: HttpRequest, state_filter: type[StateFilter]) -> list[dict[str, Any]]:
    name = state_filter.parameter_name
    kept = request.GET.copy()
    for each in (PAGE_VAR, ERROR_FLAG, name):
        kept.pop(each, None)
    states = list(state_filter.current_conditions())
    current = request.GET.get(name) if request.GET.get(name) in states else None
    items = []
    for state in (None, *states):
        query = kept.copy()
        if state:
            query[name] = state
        title, link = state.capitalize() if state else "All", f"?{query.urlencode()}"
        items.append({"title": title, "link": link, "active": state == current, "has_permission": True})
    return items
