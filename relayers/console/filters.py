"""Filters of the admin's list of relayers, and of other lists by network."""

from collections.abc import Mapping
from typing import Any

from django.db import connection
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import CheckboxFilter, DropdownFilter

from relayer_service.console.lists.filters import StateFilter
from relayer_service.database.literals import with_literals
from relayers.guards import get_guard
from relayers.models import ACTIVE, CONDITIONS, RelayerTag
from relayers.models.health import BALANCE_USED_UP_SOON, CHECK_FAILURES, NODES_FAILING, USED_UP_SOON, of_relayer
from relayers.models.tags import tagged

TABS = ["disabled", "low balance", "paused", "no address", "nodes failing", "unknown", ACTIVE]
NAMES = """
WITH RECURSIVE names(name) AS (
  SELECT min({column}) FROM {table}
  UNION ALL
  SELECT (SELECT min({column}) FROM {table} WHERE {column} > names.name) FROM names WHERE names.name IS NOT NULL
)
SELECT name FROM names
"""


class RelayerStateFilter(StateFilter):
    conditions = {
        state: with_literals({**CONDITIONS, "nodes failing": of_relayer(NODES_FAILING)}[state]) for state in TABS
    }

    @classmethod
    def current_conditions(cls) -> Mapping[str, Q]:
        """Return the conditions by state; a relayer that waits for funds is not active."""
        waiting = Q(pk__in=get_guard().waiting_for_funds())
        return {"waiting for funds": waiting, **cls.conditions, ACTIVE: cls.conditions[ACTIVE] & ~waiting}

    @staticmethod
    def label(state: str) -> str:
        return "About to be disabled" if state == "nodes failing" else StateFilter.label(state)


class ProblemFilter(DropdownFilter):
    """Filters by the cause of failed health checks, and by a balance that does not last."""

    title = "problem"
    conditions = {
        name: with_literals(of_relayer(condition))
        for name, condition in {**CHECK_FAILURES, BALANCE_USED_UP_SOON: USED_UP_SOON}.items()
    }
    parameter_name = "problem"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name.capitalize()) for name in self.conditions]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        condition = self.conditions.get(self.value())
        return queryset if condition is None else queryset.filter(condition)


class NetworkFilter(CheckboxFilter):
    """Offers the networks in use; several can be chosen."""

    title = "network"
    parameter_name = "network"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in self.used(model_admin.model)]

    def used(self, model: type[Model]) -> list[str]:
        return used_networks(model)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(network__in=self.value()) if self.value() else queryset


class TagFilter(NetworkFilter):
    """Offers the tags in use; of several, a relayer has at least one."""

    title = "tag"
    parameter_name = "tag"
    column = "pk"

    def used(self, model: type[Model]) -> list[str]:
        return used_tags()

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{f"{self.column}__in": tagged(self.value())}) if self.value() else queryset


def used_tags() -> list[str]:
    return used_networks(RelayerTag, "name")


def used_networks(model: type[Model], column: str = "network") -> list[str]:
    """Return the networks of a table, or another column's values; each step reads one entry of the index."""
    with connection.cursor() as cursor:
        cursor.execute(NAMES.format(table=model._meta.db_table, column=column))
        return [name for (name,) in cursor.fetchall() if name is not None]
