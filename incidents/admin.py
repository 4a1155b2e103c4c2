from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.html import format_html
from unfold.contrib.filters.admin import DropdownFilter, TextFilter
from unfold.decorators import display

from incidents.console.forms import AlertRouteForm
from incidents.console.guides import PAGE, runbooks
from incidents.console.panels import length, of_relayer, route_state, state
from incidents.kinds import Kind
from incidents.models import AlertRoute, Incident
from relayer_service.console.base import ReadOnlyAdmin, ResourceAdmin, column
from relayer_service.console.dates import to_the_minute
from relayer_service.console.lists.filters import StateFilter
from relayer_service.database.prefixes import CaseFolded
from relayers.console.filters import NetworkFilter
from relayers.models import Relayer

# Of a route that exists; of other channels they are a URL and a key.
TARGET_FIELDS: dict[str, list[str]] = {AlertRoute.Channel.EMAIL: ["addresses"], AlertRoute.Channel.SLACK: ["url"]}


class IncidentStateFilter(StateFilter):
    conditions = {"open": Q(ended_at=None), "ended": Q(ended_at__isnull=False)}
    is_counted = False


class KindFilter(DropdownFilter):
    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return Kind.choices

    def queryset(self, request: HttpRequest, queryset: QuerySet[Incident]) -> QuerySet[Incident]:
        return queryset.filter(kind=self.value()) if self.value() else queryset


class RelayerFilter(TextFilter):
    title = "relayer ID"
    parameter_name = "relayer"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Incident]) -> QuerySet[Incident]:
        if not self.value():
            return queryset
        relayer = Relayer.objects.filter(identifier=self.value()).values_list("pk", flat=True).first()
        return queryset.none() if relayer is None else queryset.filter(pk__in=of_relayer(relayer))


@admin.register(Incident)
class IncidentAdmin(ReadOnlyAdmin):
    list_display = ["title", "shown_state", "extent", "start", "shown_duration", "acknowledged"]
    extra_columns = ["shown_kind"]
    list_filter = [IncidentStateFilter, KindFilter, NetworkFilter, RelayerFilter]
    allowed_lookups = {"state", "kind", "network", "relayer"}
    list_fullwidth = True
    list_before_template = "admin/incidents/list.html"
    ordering = ["-id"]
    in_palette = False
    # The service alone changes it.
    has_history = False

    class Media:
        css = {"all": ["relayers/admin.css"]}

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.runbooks_view)
        return [path("runbooks/", view, name=PAGE.removeprefix("admin:")), *super().get_urls()]

    def runbooks_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = {**self.admin_site.each_context(request), "title": "Runbooks", "opts": self.opts}
        return TemplateResponse(request, "admin/incidents/runbooks.html", {**context, "runbooks": runbooks()})

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return []

    # On a line of its own where the list is narrow.
    shown_state = column("state", lambda row: format_html("{} {}", state(row), row.severity.capitalize()))
    shown_kind = column("kind", Incident.get_kind_display)
    extent = column("peak", lambda row: row.counted(row.largest))
    start = column("start", lambda row: to_the_minute(row.started_at))
    shown_duration = column("duration", length)
    acknowledged = column("acknowledged by", lambda row: row.acknowledged_by or "-")


@admin.register(AlertRoute)
class AlertRouteAdmin(ResourceAdmin):
    form = AlertRouteForm
    purpose = (
        "A route sends alerts about the problems of “Needs attention” to Slack, e-mail, a webhook, PagerDuty or "
        "Opsgenie. Without one, only the overview shows them. Add a route, then send a test alert on its page. "
        "It gets every problem unless you limit it."
    )
    # Where it can be tested.
    opens_added = True
    list_display = ["identifier", "shown_channel", "masked_url", "problems", "on_call", "hours", "shown_state"]
    sort_orders = {"identifier": CaseFolded("identifier")}
    in_palette = False
    # The add page shows only the fields of the chosen channel; on the change page it is fixed.
    conditional_fields = {
        "url": "typeof channel === 'undefined' || channel !== 'email'",
        "addresses": "typeof channel === 'undefined' || channel === 'email'",
        "new_secret": "typeof channel === 'undefined' || !['email', 'slack'].includes(channel)",
    }

    class Media:
        css = {"all": ["relayers/admin.css"]}

    def get_fieldsets(self, request: HttpRequest, obj: AlertRoute | None = None) -> Any:
        target = TARGET_FIELDS.get(obj.channel, ["url", "new_secret"]) if obj else ["url", "addresses", "new_secret"]
        quiet = ["quiet_from", "quiet_until", "time_zone", "severe_passes"]
        if obj and not self.has_change_permission(request, obj):
            shown = ["identifier", "channel", "masked_url", "problems", "severe_only", "on_call", "hours", "enabled"]
            return [(None, {"fields": shown})]
        return [
            (None, {"fields": ["identifier", "channel", *target, "enabled", "on_call"]}),
            ("Which problems", {"fields": ["severe_only", "chosen_kinds", "chosen_networks", "chosen_tags"]}),
            ("Quiet hours", {"fields": quiet}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: AlertRoute | None = None) -> list[str]:
        return [*(["identifier", "channel"] if obj else []), "masked_url", "problems", "hours"]

    shown_channel = column("channel", AlertRoute.get_channel_display)
    masked_url = column("target", lambda route: route.masked_url)
    hours = column("quiet hours", lambda route: route.quiet_hours or "none")
    shown_state = column("state", route_state)

    @display(description="problems")
    def problems(self, route: AlertRoute) -> str:
        kinds = ", ".join(Kind(kind).label for kind in route.kinds if kind in Kind.values) or "all"
        where = f" on {', '.join(route.networks)}" if route.networks else ""
        tagged = f" with the tag {' or '.join(route.tags)}" if route.tags else ""
        return f"{kinds}{where}{tagged}{', severe only' if route.severe_only else ''}"
