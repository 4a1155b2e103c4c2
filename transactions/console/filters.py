"""Filters of the admin's lists of transactions and lanes."""

from typing import Any

from django.contrib.admin.views.main import ORDER_VAR
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import AutocompleteSelectFilter, DropdownFilter, TextFilter

from relayer_service.console.lists.changelists import ResourceList
from relayer_service.console.lists.filters import DayRangeFilter, PeriodFilter, StateFilter
from relayer_service.storage.newest import newest_with
from relayers.console.filters import NetworkFilter, TagFilter, used_networks
from relayers.models import Relayer
from transactions.models import IS_IN_STATUS, NEEDS_FUNDS, Status, Transaction, Waiting
from transactions.records import finding

# The parameter of the list of one relayer's rows.
RELAYER = "relayer__sequence__exact"
# What filters sort by, before the sequence.
SORTED_BY = ("relayer_id", "requester", finding.FINISHED)
ALL_KINDS = "all"
HELD, WAITING, RUNNING = "held", "waiting", "running"


class StatusFilter(StateFilter):
    is_counted = False
    title = "status"
    parameter_name = "status"
    conditions = {str(status): IS_IN_STATUS[status] for status in Status}


class RelayerFilter(AutocompleteSelectFilter):
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        key = request.GET.get(RELAYER)
        return newest_with(queryset, "relayer_id", key) if key else super().queryset(request, queryset)


class TransactionList(ResourceList):
    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """Sort by the columns that a filter sorted by first, in the direction of their index."""
        ordering = super().get_ordering(request, queryset.order_by())
        # Unless the user has chosen another one than theirs.
        sorted_by = SORTED_BY[:-1] if ORDER_VAR in request.GET else SORTED_BY
        leading = [str(name) for name in queryset.query.order_by if name in sorted_by]
        if not str(ordering[0]).startswith("-"):
            leading = [name.removeprefix("-") if name.startswith("-") else f"-{name}" for name in leading]
        return [*leading, *ordering]


class TokenFilter(TextFilter):
    title = "token ID"
    parameter_name = "token"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return finding.requested_with(queryset, self.value()) if self.value() else queryset


class DaysFilter(DayRangeFilter):
    """Has a title other than that of its column, which another filter has too."""

    name: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = self.name


class Created:
    starting, ending = staticmethod(finding.created_from), staticmethod(finding.created_before)


class CreatedPeriodFilter(Created, PeriodFilter):
    title, parameter_name = "period created", "created"


class CreatedDaysFilter(Created, DaysFilter):
    name = "day created"


class Finished:
    starting, ending = staticmethod(finding.finished_from), staticmethod(finding.finished_before)


class FinishedPeriodFilter(Finished, PeriodFilter):
    title, parameter_name = "period finished", "finished"


class FinishedDaysFilter(Finished, DaysFilter):
    name = "day finished"


class LaneStateFilter(StateFilter):
    conditions = {HELD: Q(held_since__isnull=False), WAITING: ~Q(waiting=""), RUNNING: Q(held_since=None, waiting="")}


class WaitingFilter(DropdownFilter):
    title = "waiting for"
    parameter_name = "waiting"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(each), str(each.label)) for each in Waiting]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        return queryset.filter(NEEDS_FUNDS if self.value() == Waiting.FUNDS else Q(waiting=self.value()))


class RelayerNetworkFilter(NetworkFilter):
    def used(self, model: type[Model]) -> list[str]:
        return used_networks(Relayer)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        return queryset.filter(relayer__in=Relayer.objects.filter(network__in=self.value()).order_by().values("pk"))


class RelayerTagFilter(TagFilter):
    column = "relayer"


class KindFilter(DropdownFilter):
    """Hides all but requests, unless another kind is chosen."""

    title = "kind"
    parameter_name = "kind"
    all_option = ["", "Requests"]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        others = [(str(kind), str(kind.label)) for kind in Transaction.Kind if kind != Transaction.Kind.REQUEST]
        return [*others, (ALL_KINDS, "All")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == ALL_KINDS:
            return queryset
        return queryset.filter(kind=self.value() or Transaction.Kind.REQUEST)
