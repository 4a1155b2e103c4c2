"""Lists of any size: sorted by indexed columns, with a tab per state, named filters and a bounded number of pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG, ORDER_VAR, PAGE_VAR
from django.core.paginator import Page, Paginator
from django.db import connection
from django.db.models import Case, Count, QuerySet, When
from django.http import HttpRequest, QueryDict
from django.utils.functional import cached_property
from django.utils.html import format_html
from unfold.views import ChangeList

from relayer_service.console.lists.filters import StateFilter
from relayer_service.database.nul import has_nul
from relayer_service.storage import counting
from relayer_service.storage.newest import page_of

# Number of rows that a list has pages for, and that an action can select.
MAX_LISTED = 10_000
# Number of rows that a tab counts, and that is counted of a queue.
MAX_COUNTED = 1_000
# Every database accepts a number of this length as a key.
MAX_DIGITS = 18
COUNT = "(SELECT COUNT(*) FROM ({}) AS counted)"


class NewestPaginator(Paginator):  # type: ignore[type-arg]  # Django cannot subscript it
    """Has pages of the first rows only: counting or skipping a million rows takes as long as reading them."""

    template_name = "admin/newest_pagination.html"
    object_list: Any

    @cached_property
    def total(self) -> int:
        """The exact total of an unfiltered list with row counts, else at most MAX_LISTED."""
        whole = counting.total(self.object_list.model) if not self.object_list.query.where else None
        # Django would sort the rows before it counts them: the order is removed.
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
        number = self.validate_number(number)
        first = (number - 1) * self.per_page
        return Page(page_of(self.object_list, first, min(first + self.per_page, self.count)), number, self)


@dataclass(frozen=True)
class ActiveFilter:
    """A chosen value of a filter, and the query of the list without it."""

    title: str
    value: str
    without: str


class ResourceList(ChangeList):
    tab: str | None = None
    active_filters: list[ActiveFilter] = []
    filter_specs: list[Any]
    # The rows that the search and the filters find, in any state.
    of_all_states: QuerySet[Any]

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        """Return the filtered rows. The filter by state is removed from the sidebar, as the page shows it as tabs."""
        if any(has_nul(value) for _, values in request.GET.lists() for value in values):
            raise IncorrectLookupParameters
        rows: QuerySet[Any] = super().get_queryset(request, *args, **kwargs)
        self.of_all_states = rows
        tabs = [spec for spec in self.filter_specs if isinstance(spec, StateFilter)]
        for spec in tabs:
            rows = spec.of_state(rows) if spec.is_counted else rows
        self.tab = next((spec.value() for spec in tabs if spec.value()), None)
        self.filter_specs = [spec for spec in self.filter_specs if spec not in tabs]
        self.has_filters = bool(self.filter_specs)
        self.active_filters = active_filters(request, self.filter_specs, self.model_admin.admin_site)
        self.has_active_filters = bool(self.active_filters)
        self.without_filters = without_filters(request, self.filter_specs)
        return rows

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_count = self.paginator.total

    def get_ordering_field(self, field_name: Any) -> Any:
        """Return the order of a column, or None without an index, even if the URL requests it."""
        return self.model_admin.sort_orders.get(field_name)

    @cached_property
    def sorted_column(self) -> tuple[str, str]:
        """Return the sign and the name of the column that the URL sorts by, shown or not; empty if there is none.

        URLs have its name: its number depends on the columns that a user has chosen. A number, as in older links, is
        that of a default column. Read before `list_display` is changed to the chosen columns.
        """
        # No index covers two columns.
        _, sign, column = self.params.get(ORDER_VAR, "").split(".")[0].rpartition("-")
        column = {str(number): name for number, name in enumerate(self.list_display)}.get(column, column)
        is_offered = column in self.list_display or column in self.model_admin.extra_columns
        return (sign, column) if is_offered and self.get_ordering_field(column) else ("", "")

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        sign, column = self.sorted_column
        if not column:
            self.params.pop(ORDER_VAR, None)
            return list(super().get_ordering(request, queryset))
        order = self.get_ordering_field(column)
        first: Any = f"{sign}{order}"
        if not isinstance(order, str):
            first = order.desc() if sign else order.asc()
        is_unique = len(self._get_deterministic_ordering([first, *queryset.query.order_by])) == 1
        # The key, in the same direction, as the index ends.
        return [first] if is_unique else [first, f"{sign}pk"]

    def get_ordering_field_columns(self) -> dict[int, str]:
        sign, column = self.sorted_column
        if not column:
            return dict(super().get_ordering_field_columns())
        return {n: "desc" if sign else "asc" for n, name in enumerate(self.list_display) if name == column}

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        """Return a query that has the name of the column that it sorts by, in place of its number."""
        if order := (new_params or {}).get(ORDER_VAR):
            _, sign, number = order.split(".")[0].rpartition("-")
            new_params = {**new_params, ORDER_VAR: f"{sign}{self.list_display[int(number)]}"}
        return str(super().get_query_string(new_params, remove))


def active_filters(request: HttpRequest, specs: Sequence[Any], site: AdminSite) -> list[ActiveFilter]:
    found = []
    for spec in specs:
        for name in spec.expected_parameters():
            for value in filter(None, request.GET.getlist(name)):
                query = first_page(request)
                query.setlist(name, [each for each in query.getlist(name) if each != value])
                shown = _shown_value(request, spec, value, site)
                found.append(ActiveFilter(_title(spec, name), shown, f"?{query.urlencode()}"))
    return found


def without_filters(request: HttpRequest, specs: Sequence[Any]) -> str:
    query = first_page(request)
    for name in (name for spec in specs for name in spec.expected_parameters()):
        query.pop(name, None)
    return f"?{query.urlencode()}"


def first_page(request: HttpRequest) -> QueryDict:
    query = request.GET.copy()
    for name in (PAGE_VAR, ERROR_FLAG):
        query.pop(name, None)
    return query


def _title(spec: Any, name: str) -> str:
    end = next((end for end in ("from", "to") if name == f"{getattr(spec, 'field_path', None)}_{end}"), "")
    return f"{spec.title} {end}".strip().capitalize()


def _shown_value(request: HttpRequest, spec: Any, value: str, site: AdminSite) -> str:
    field: Any = getattr(spec, "field", None)
    model: Any = getattr(field, "related_model", None)
    related = site._registry.get(model)
    if related and related.has_view_permission(request) and value.isdecimal() and is_key(value):
        return str(related.model._base_manager.filter(pk=value).first() or value)
    choices = getattr(field, "flatchoices", None) or getattr(spec, "lookup_choices", [])
    return next((str(label) for key, label in choices if str(key) == value), value)


def is_key(value: str) -> bool:
    return len(str(value)) <= MAX_DIGITS


def tabs(
    request: HttpRequest, state_filter: type[StateFilter], counts: Mapping[str | None, str]
) -> list[dict[str, Any]]:
    """Return a tab per state, with its number of rows if that is counted."""
    name = state_filter.parameter_name
    kept = first_page(request)
    kept.pop(name, None)
    states = list(state_filter.current_conditions())
    current = request.GET.get(name) if request.GET.get(name) in states else None
    items = []
    for state in (None, *states):
        query = kept.copy()
        if state:
            query[name] = state
        title, link = state_filter.label(state) if state else "All", f"?{query.urlencode()}"
        if state in counts:
            title = format_html('{} <span class="tab-count">{}</span>', title, counts[state])
        items.append({"title": title, "link": link, "active": state == current, "has_permission": True})
    return items


def tab_counts(rows: QuerySet[Any], state_filter: type[StateFilter]) -> dict[str | None, str]:
    """Return the number of rows by state, up to a maximum and in one query, and their total."""
    conditions = state_filter.current_conditions()
    numbers = count_up_to_maximum([rows.filter(condition) for condition in conditions.values()])
    counts = dict[str | None, str](zip(conditions, map(counted, numbers), strict=True))
    total = counting.total(rows.model)
    return counts if total is None else {None: f"{total:,}", **counts}


def filtered_tab_counts(rows: QuerySet[Any], state_filter: type[StateFilter]) -> dict[str | None, str]:
    """Return the number of filtered rows in all and by state, in one query that reads at most MAX_LISTED of them.

    If there are more, a state that few of those have is left out: others may have it too.
    """
    conditions = state_filter.current_conditions()
    states = {f"state_{number}": Case(When(each, then=1)) for number, each in enumerate(conditions.values())}
    read = rows.order_by().annotate(**states)[:MAX_LISTED]
    total, *numbers = read.aggregate(Count("pk"), *map(Count, states)).values()
    found = zip((None, *conditions), (total, *numbers), strict=True)
    counts = {state: counted(number) for state, number in found if total < MAX_LISTED or number > MAX_COUNTED}
    return {**counts, None: f"{total:,}"} if total < MAX_LISTED else counts


def count_up_to_maximum(lists: Sequence[QuerySet[Any]]) -> Sequence[int]:
    """Return the number of rows of each list in one query, at most one more than `counted` shows."""
    found = [rows.order_by().values("pk")[: MAX_COUNTED + 1].query.sql_with_params() for rows in lists]
    with connection.cursor() as cursor:
        sql = ", ".join(COUNT.format(sql) for sql, _ in found)
        cursor.execute(f"SELECT {sql}", [value for _, values in found for value in values])
        return list(cursor.fetchone())


def counted(number: int) -> str:
    return f"{MAX_COUNTED:,}+" if number > MAX_COUNTED else f"{number:,}"
