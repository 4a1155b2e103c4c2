"""The panels of incidents: what was sent about one, the last messages of a route, the last incidents of a relayer."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join

from incidents.delivery import send_test
from incidents.messages import duration
from incidents.models import AlertMessage, AlertRoute, Incident, IncidentRelayer
from relayer_service.console.dates import exact, to_the_minute, until
from relayer_service.console.overview.dashboard import label, link
from relayer_service.console.panels import Panel, object_view
from relayer_service.console.references import and_more
from relayers.models import Relayer

VIEW = "incidents.view_incident"
MAX_MESSAGES, MAX_RELAYERS, MAX_INCIDENTS = 50, 10, 5
VARIANTS: dict[str, str] = {
    AlertMessage.State.PENDING: "info",
    AlertMessage.State.SENT: "success",
    AlertMessage.State.FAILED: "danger",
}


def state(incident: Incident) -> str:
    if incident.ended_at:
        return label("ended", "success")
    return label("open", "danger" if incident.severe else "warning")


def lines(found: Iterable[AlertMessage]) -> list[dict[str, Any]]:
    return [{"message": message, "state": message_state(message), "details": details(message)} for message in found]


def message_state(message: AlertMessage) -> str:
    return label(message.get_state_display().lower(), VARIANTS.get(message.state, "default"))


def details(message: AlertMessage) -> str:
    """Return when it was sent, or why it is not."""
    if message.sent_at:
        return f"{exact(message.sent_at)}"
    if message.state != AlertMessage.State.PENDING:
        return message.error
    if message.route is None or not message.route.enabled:
        return "Its route is deleted." if message.route is None else "Its route is disabled."
    is_held = message.incident and not (message.incident.severe and message.route.severe_passes)
    if is_held and message.route.is_quiet(timezone.now()):
        return f"Waits for the end of the quiet hours, {message.route.quiet_hours}."
    next_time = until(message.due_at) if message.due_at else ""
    return f"{message.error} Next attempt {next_time}." if message.error else f"Due {next_time}."


class IncidentPanel(Panel):
    template = "admin/incidents/incident.html"

    def context(self, request: HttpRequest, incident: Incident) -> dict[str, Any]:
        facts = {
            "State": state(incident),
            "Extent": f"{incident.counted(incident.largest)} at most",
            "Start": exact(incident.started_at),
            "End": exact(incident.ended_at),
            "Duration": duration(incident.started_at, incident.ended_at),
            "Acknowledged": acknowledgement(incident),
            "Relayers": self._relayers(request, incident),
        }
        if not incident.ended_at:
            facts["Now"] = link(incident.counted(incident.number), incident.url)
        sent = incident.messages.select_related("route").order_by("pk")[:MAX_MESSAGES]
        return {"facts": facts, "alert_lines": lines(sent)}

    def _relayers(self, request: HttpRequest, incident: Incident) -> str:
        if not request.user.has_perm("relayers.view_relayer"):
            return "-"
        stored = incident.relayers.order_by("pk")
        keys = list(stored.values_list("relayer", flat=True)[:MAX_RELAYERS])
        links = [
            (link(relayer.name, reverse("admin:relayers_relayer_change", args=[relayer.pk])),)
            for relayer in Relayer.objects.filter(pk__in=keys).only("name").order_by("pk")
        ]
        more = and_more(stored.count() - len(keys))
        return format_html("{} {}", format_html_join(", ", "{}", links), more) if links else "-"


def acknowledgement(incident: Incident) -> str:
    if incident.acknowledged_at is None:
        return "no"
    who = f"by {incident.acknowledged_by}, {to_the_minute(incident.acknowledged_at)}"
    return f"{who}: {incident.note}" if incident.note else who


class RoutePanel(Panel):
    template = "admin/incidents/route.html"
    views = ["send_test"]

    def context(self, request: HttpRequest, route: AlertRoute) -> dict[str, Any]:
        sent = AlertMessage.objects.filter(route=route).select_related("route", "incident").order_by("-pk")
        test_url = self.url("send_test", route) if self.admin.has_change_permission(request, route) else ""
        return {"alert_lines": lines(sent[:MAX_RELAYERS]), "test_url": test_url}

    @object_view("change")
    def send_test(self, request: HttpRequest, route: AlertRoute) -> None:
        if not route.enabled:
            self.admin.message_user(request, f"{route} is disabled. Enable it first.", messages.WARNING)
            return
        send_test(route)
        text = f"A test alert to {route} is sent within seconds. Reload this page for its outcome."
        self.admin.message_user(request, text, messages.SUCCESS)


class RelayerIncidents(Panel):
    """The newest incidents of a relayer."""

    template = "admin/incidents/of_relayer.html"

    def may_view(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm(VIEW))

    def context(self, request: HttpRequest, relayer: Relayer) -> dict[str, Any]:
        newest = Incident.objects.filter(pk__in=of_relayer(relayer.pk)[:MAX_INCIDENTS]).order_by("-pk")
        query = urlencode({"relayer": relayer.identifier})
        return {
            "relayer_incidents": [(incident, state(incident), length(incident)) for incident in newest],
            "incidents_url": f"{reverse('admin:incidents_incident_changelist')}?{query}",
        }


def length(incident: Incident) -> str:
    return duration(incident.started_at, incident.ended_at)


def of_relayer(key: int) -> QuerySet[Any, Any]:
    """Return the keys of the incidents of a relayer, newest first, from an index."""
    rows = IncidentRelayer.objects.filter(relayer=key).order_by("-incident")
    return rows.values_list("incident", flat=True)
