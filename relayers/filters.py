"""How the admin narrows the list of relayers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter

from relayer_service.admin.filters import StateFilter
from relayers.chain.networks import networks
from relayers.models import ACTIVE, CONDITIONS, Relayer

# The value of the network filter for all networks that the service does not know.
OTHER = "other"


class RelayerStateFilter(StateFilter):
    # The order of the tabs.
    conditions = {
        state: CONDITIONS[state] for state in ("disabled", "low balance", "paused", "no address", "unknown", ACTIVE)
    }


class NetworkFilter(DropdownFilter):
    """Offer the networks that the service knows: to list those in the table, all of it would be read."""

    title = "network"
    parameter_name = "network"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [*((name, name) for name in networks()), (OTHER, "Other networks")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Relayer]) -> QuerySet[Relayer]:
        if self.value() == OTHER:
            return queryset.filter(others(sorted(networks())))
        return queryset.filter(network=self.value()) if self.value() else queryset


def others(names: list[str]) -> Q:
    """Return the condition that a network is none of these, as the ranges between them, which an index finds."""
    condition, bounds = Q(), [None, *names, None]
    for before, behind in pairwise(bounds):
        between = Q(network__gt=before) if before is not None else Q()
        condition |= between & Q(network__lt=behind) if behind is not None else between
    return condition
