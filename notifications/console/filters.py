"""Filters of the admin's lists of notifications and deliveries."""

from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter, TextFilter

from notifications.events import all_events
from notifications.models import TARGET_TROUBLES, Delivery, Notification
from relayer_service.console.lists.filters import StateFilter

TARGET_STATES = TARGET_TROUBLES | {"ok": Q(enabled=True, failing_since=None, gone_at=None)}
# Query parameter of the list of deliveries: the id of a relayer.
SUBJECT = "relayer"


class TargetStateFilter(StateFilter):
    conditions = TARGET_STATES


class ErrorFilter(TextFilter):
    """Filters by the exact error of the last attempt."""

    title = "last error"
    parameter_name = "error"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Notification]) -> QuerySet[Notification]:
        return queryset.filter(failing_error=self.value()) if self.value() else queryset


class DeliveryStateFilter(StateFilter):
    parameter_name = "state__exact"
    conditions = {state: Q(state=state) for state in ("failed", "pending", "delivered")}


class SubjectFilter(TextFilter):
    title = "relayer ID"
    parameter_name = SUBJECT

    def queryset(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> QuerySet[Delivery]:
        # The condition of the partial index, so that it is used.
        return queryset.filter(~Q(subject=""), subject=self.value()) if self.value() else queryset


class EventFilter(DropdownFilter):
    """Lists the declared events: to list those in the table would read all of it."""

    title = "event"
    parameter_name = "event"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in all_events()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> QuerySet[Delivery]:
        return queryset.filter(event=self.value()) if self.value() else queryset
