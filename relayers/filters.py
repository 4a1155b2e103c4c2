"""Filters of the admin's list of relayers, and of other lists by network."""

from typing import Any

from django.db import connection
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter

from chain.networks import networks
from relayer_service.admin.filters import StateFilter
from relayers.models import ACTIVE, CONDITIONS, NODES_FAILING, Relayer

# The value of the filter for all networks that the service does not define.
OTHER = "other"
TABS = ["disabled", "low balance", "paused", "no address", "nodes failing", "unknown", ACTIVE]
NAMES = """
WITH RECURSIVE names(name) AS (
  SELECT min(network) FROM {table}
  UNION ALL
  SELECT (SELECT min(network) FROM {table} WHERE network > names.name) FROM names WHERE names.name IS NOT NULL
)
SELECT name FROM names
"""


class RelayerStateFilter(StateFilter):
    conditions = {state: {**CONDITIONS, "nodes failing": NODES_FAILING}[state] for state in TABS}


class NetworkFilter(DropdownFilter):
    """Offers the networks that the service defines: a list of those in use would read the whole table."""

    title = "network"
    parameter_name = "network"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [*((name, name) for name in networks()), (OTHER, "Other networks")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Relayer]) -> QuerySet[Relayer]:
        if self.value() == OTHER:
            return queryset.filter(network__in=other_networks(queryset.model))
        return queryset.filter(network=self.value()) if self.value() else queryset


def other_networks(model: type[Model]) -> list[str]:
    """Return the networks of a table that the service does not define; each step reads one entry of the index."""
    with connection.cursor() as cursor:
        cursor.execute(NAMES.format(table=model._meta.db_table))
        return [name for (name,) in cursor.fetchall() if name is not None and name not in networks()]
