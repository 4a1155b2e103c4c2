"""How the admin narrows the list of relayers, and the state that each of them is in."""

from __future__ import annotations

from typing import Any

from django.db.models import Case, CharField, Q, QuerySet, Value, When
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter

from relayer_service.admin.filters import StateFilter
from relayers.chain.networks import networks
from relayers.models import Relayer

ACTIVE = "active"
# A relayer is in the first state that holds of it, and active where none does.
TROUBLES = {
    "disabled": Q(system_disabled=True),
    "paused": Q(paused=True),
    "low balance": Q(balance_is_low=True),
    "unknown": Q(checked_at=None) | Q(nonce=None) | Q(balance_text=""),
}
STATES = [ACTIVE, *TROUBLES]
# The value of the network filter for all that the service does not know.
OTHER = "other"


def with_state(relayers: QuerySet[Relayer]) -> QuerySet[Any]:
    """Have the database tell each relayer's state, as `state`."""
    cases = [When(condition, then=Value(state)) for state, condition in TROUBLES.items()]
    return relayers.annotate(state=Case(*cases, default=Value(ACTIVE), output_field=CharField()))


class RelayerStateFilter(StateFilter):
    states = STATES


class NetworkFilter(DropdownFilter):
    """Offer the networks that the service knows: those of the table would be read from all of it."""

    title = "network"
    parameter_name = "network"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [*((name, name) for name in networks()), (OTHER, "Other networks")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Relayer]) -> QuerySet[Relayer]:
        if self.value() == OTHER:
            return queryset.exclude(network__in=networks())
        return queryset.filter(network=self.value()) if self.value() else queryset
