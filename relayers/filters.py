"""How the admin narrows the list of relayers."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter

from relayer_service.admin.filters import StateFilter
from relayers.chain.networks import networks
from relayers.models import CONDITIONS, NODES_FAILING, Relayer

# The value of the network filter for all networks that the service does not know.
OTHER = "other"


class RelayerStateFilter(StateFilter):
    conditions = {**CONDITIONS, "nodes failing": NODES_FAILING}


class NetworkFilter(DropdownFilter):
    """Offer the networks that the service knows: to list those in the table, all of it would be read."""

    title = "network"
    parameter_name = "network"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [*((name, name) for name in networks()), (OTHER, "Other networks")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Relayer]) -> QuerySet[Relayer]:
        if self.value() == OTHER:
            return queryset.exclude(network__in=networks())
        return queryset.filter(network=self.value()) if self.value() else queryset
