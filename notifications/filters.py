"""How the admin narrows the lists of notifications and deliveries."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter, TextFilter

from notifications.catalogue import all_events
from notifications.models import TARGET_TROUBLES, Delivery
from relayer_service.admin.filters import StateFilter

State = Delivery.State
TARGET_STATES = TARGET_TROUBLES | {"ok": Q(enabled=True, failing_since=None, gone_at=None)}
# The parameter of the list of deliveries that takes the id of a relayer.
SUBJECT = "relayer"


class TargetStateFilter(StateFilter):
    conditions = TARGET_STATES


class DeliveryStateFilter(StateFilter):
    parameter_name = "state__exact"
    conditions = {state.value: Q(state=state) for state in (State.FAILED, State.PENDING, State.DELIVERED)}


class SubjectFilter(TextFilter):
    """Narrow the log to the events about one relayer, whose whole id is typed."""

    title = "relayer id"
    parameter_name = SUBJECT

    def queryset(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> QuerySet[Delivery]:
        # Not of an empty id too, so that the index of those that have one is used.
        return queryset.filter(~Q(subject=""), subject=self.value()) if self.value() else queryset


class EventFilter(DropdownFilter):
    """Offer the events of the catalogue: to list those in the table, all of it would be read."""

    title = "event"
    parameter_name = "event"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in all_events()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> QuerySet[Delivery]:
        return queryset.filter(event=self.value()) if self.value() else queryset
