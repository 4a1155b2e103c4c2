"""How the admin narrows the lists of notifications and deliveries."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter

from notifications.events import EVENTS
from notifications.models import Delivery
from relayer_service.admin.filters import StateFilter

TARGET_STATES = {
    "ok": Q(enabled=True, failing_since=None, gone_at=None),
    "failing": Q(enabled=True, failing_since__isnull=False, gone_at=None),
    "gone": Q(enabled=True, gone_at__isnull=False),
    # Whatever is known of it: nobody waits for it.
    "disabled": Q(enabled=False),
}


class TargetStateFilter(StateFilter):
    conditions = TARGET_STATES


class EventFilter(DropdownFilter):
    """Offer the events of the catalogue: to list those in the table, all of it would be read."""

    title = "event"
    parameter_name = "event"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in EVENTS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> QuerySet[Delivery]:
        return queryset.filter(event=self.value()) if self.value() else queryset
