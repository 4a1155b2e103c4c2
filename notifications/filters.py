"""How the admin narrows the lists of notifications and deliveries."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import DropdownFilter, RangeDateFilter
from unfold.utils import parse_date_str

from notifications.events import EVENTS
from notifications.models import Delivery, Notification

TARGET_STATES = {
    "ok": Q(failing_since=None, gone_at=None),
    "failing": Q(failing_since__isnull=False, gone_at=None),
    "gone": Q(gone_at__isnull=False),
}


class TargetStateFilter(DropdownFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state, state.capitalize()) for state in TARGET_STATES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Notification]) -> QuerySet[Notification]:
        condition = TARGET_STATES.get(self.value())
        return queryset.filter(condition) if condition else queryset


class EventFilter(DropdownFilter):
    """Offer the events of the catalogue: to list those in the table, all of it would be read."""

    title = "event"
    parameter_name = "event"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in EVENTS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> QuerySet[Delivery]:
        return queryset.filter(event=self.value()) if self.value() else queryset


class DayRangeFilter(RangeDateFilter):
    """Filter by days, from the beginning of the first to the end of the last."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> QuerySet[Delivery]:
        for end, lookup, hour in (("from", "gte", time.min), ("to", "lte", time.max)):
            day = parse_date_str(self.used_parameters.get(f"{self.field_path}_{end}"))
            if day:
                moment = datetime.combine(day, hour, timezone.get_current_timezone())
                queryset = queryset.filter(**{f"{self.field_path}__{lookup}": moment})
        return queryset
