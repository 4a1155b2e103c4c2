"""The panels of incidents: what was sent about one, the last messages of a route, the last incidents of a relayer."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join

from incidents.console.guides import guide
from incidents.delivery import send_test
from incidents.kinds import Kind, key_of
from incidents.messages import duration
from incidents.models import AlertMessage, AlertRoute, Incident, IncidentRelayer
from relayer_service.console.dates import exact, to_the_minute, until
from relayer_service.console.overview.dashboard import label, link
from relayer_service.console.overview.incidents import Rows, examples_of, rows_of
from relayer_service.console.panels import Panel, object_view
from relayer_service.console.references import and_more
from relayers.console.nodes import faulty_nodes
from relayers.models import Relayer

VIEW = "incidents.view_incident"
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
MAX_MESSAGES, MAX_RELAYERS, MAX_NODES, MAX_INCIDENTS = 50, 10, 10, 5
TITLES: dict[str, str] = {
    AlertMessage.Event.BEGAN: "Start",
    AlertMessage.Event.GREW: "Escalation",
    AlertMessage.Event.ENDED: "End",
    AlertMessage.Event.TEST: "Test",
}
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
    return [
        {
            "message": message,
            "title": TITLES[message.event],
            "state": message_state(message),
            "details": details(message),
        }
        for message in found
    ]


def message_state(message: AlertMessage) -> str:
    is_pending = message.state == AlertMessage.State.PENDING
    pending = "sending" if is_claimed(message) else "not sent yet"
    text = pending if is_pending else message.get_state_display().lower()
    return label(text, VARIANTS.get(message.state, "default"))


def is_claimed(message: AlertMessage) -> bool:
    """Return whether a worker is sending it. That of an expired lease was killed."""
    return bool(message.lease and message.due_at and message.due_at > timezone.now())


def details(message: AlertMessage) -> str:
    """Return when it was sent, or why it is not."""
    if message.sent_at:
        return f"{exact(message.sent_at)}"
    if message.state != AlertMessage.State.PENDING:
        return message.error
    if is_claimed(message):
        return ""
    if message.route is None or not message.route.enabled:
        return "Its route is deleted." if message.route is None else "Its route is disabled."
    is_held = message.incident and not (message.incident.severe and message.route.severe_passes)
    if is_held and message.route.is_quiet(timezone.now()):
        return f"Waits for the end of the quiet hours, {message.route.quiet_hours}."
    next_time = until(message.due_at) if message.due_at else ""
    return f"{message.error} Next attempt {next_time}." if message.error else f"To be sent {next_time}."


class IncidentPanel(Panel):
    template = "admin/incidents/incident.html"

    def context(self, request: HttpRequest, incident: Incident) -> dict[str, Any]:
        facts = {"State": state(incident), "Severity": incident.severity.capitalize()}
        if not incident.ended_at:
            facts["Now"] = "none" if incident.absent_since else link(incident.counted(incident.number), incident.url)
        facts |= {
            "Peak": incident.counted(incident.largest),
            "Start": exact(incident.started_at),
            **({"End": exact(incident.ended_at)} if incident.ended_at else {}),
            "Duration": duration(incident.started_at, incident.ended_at),
            # The next reading stores it for an open incident; until then, the rows of its causes show it.
            **({"Acknowledged": acknowledgement(incident)} if incident.ended_at or incident.acknowledged_at else {}),
            "Relayers": self._relayers(request, incident),
        }
        sent = incident.messages.select_related("route").order_by("pk")[:MAX_MESSAGES]
        causes = None if incident.ended_at else causes_of(request, incident)
        guided = guide(request, incident)
        context = {"incident": incident, "facts": facts, "causes": causes, "alert_lines": lines(sent), "guide": guided}
        nodes = nodes_of(request, incident)
        context |= {"nodes": nodes[:MAX_NODES], "more_nodes": and_more(len(nodes) - MAX_NODES)}
        may_add = request.user.has_perm("incidents.add_alertroute")
        add_url = reverse("admin:incidents_alertroute_add") if may_add else ""
        return context | {"has_routes": AlertRoute.objects.exists(), "add_route_url": add_url}

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


def causes_of(request: HttpRequest, incident: Incident) -> Rows:
    """Return the rows of "Needs attention" that an incident consists of now, for the user."""
    found = rows_of(request, lambda cause: key_of(cause) == incident.key)
    # On the overview, acknowledged rows have no example.
    examples = examples_of(found.subjects, [row.cause for row in found.acknowledged])
    return replace(
        found,
        # Without a link to this page.
        rows=[replace(row, incident_url="") for row in found.rows],
        acknowledged=[replace(row, example=examples.get(row.cause.key)) for row in found.acknowledged],
    )


def nodes_of(request: HttpRequest, incident: Incident) -> list[tuple[str, str, str]]:
    """Return the nodes that do not work, while that is the incident."""
    is_about_nodes = incident.kind in {Kind.NODE_DOWN, Kind.CHAIN_HALTED} and not incident.ended_at
    return faulty_nodes(incident.network) if is_about_nodes and request.user.has_perm("relayers.view_relayer") else []


def acknowledgement(incident: Incident) -> str:
    if incident.acknowledged_at is None:
        return "no"
    who = f"by {incident.acknowledged_by}, {to_the_minute(incident.acknowledged_at)}"
    return f"{who}: {incident.note}" if incident.note else who


def route_state(route: AlertRoute) -> str:
    """Return the outcome of the last attempt on a route. One in progress has none yet."""
    if not route.enabled:
        return label("disabled", "warning")
    has_outcome = Q(sent_at__isnull=False) | ~Q(error="")
    last = AlertMessage.objects.filter(has_outcome, route=route).order_by("-pk").first()
    if last is None:
        return label("not tested", "info")
    return label("failing", "danger") if last.error else label("ok", "success")


def link_hint() -> str:
    """Return what to set if the links in alerts cannot work on other machines."""
    if not settings.PUBLIC_URL:
        return "Alerts have no links. Set PUBLIC_URL to the address of this admin."
    if urlsplit(settings.PUBLIC_URL).hostname in LOOPBACK:
        return f"Links in alerts lead to {settings.PUBLIC_URL}. Set PUBLIC_URL to an address that others can open."
    return ""


class RoutePanel(Panel):
    template = "admin/incidents/route.html"
    views = ["send_test", "alerts"]

    class Media:
        js = ("relayer_service/jobs.js",)

    def context(self, request: HttpRequest, route: AlertRoute) -> dict[str, Any]:
        sent = AlertMessage.objects.filter(route=route).select_related("route", "incident").order_by("-pk")
        test_url = self.url("send_test", route) if self.admin.has_change_permission(request, route) else ""
        is_testing = sent.filter(event=AlertMessage.Event.TEST, state=AlertMessage.State.PENDING).exists()
        return {
            "alert_lines": lines(sent[:MAX_RELAYERS]),
            "route_state": route_state(route),
            "test_url": test_url,
            "alerts_url": self.url("alerts", route),
            "is_testing": is_testing and route.enabled,
            "link_hint": link_hint(),
        }

    @object_view("view", "GET")
    def alerts(self, request: HttpRequest, route: AlertRoute) -> HttpResponse:
        """Return the alerts alone, for the page to refresh them until a test has its outcome."""
        return TemplateResponse(request, "admin/incidents/route_alerts.html", self.context(request, route))

    @object_view("change")
    def send_test(self, request: HttpRequest, route: AlertRoute) -> None:
        if not route.enabled:
            self.admin.message_user(request, f"{route} is disabled. Enable it first.", messages.WARNING)
            return
        send_test(route)
        text = f"A test alert to {route} is sent within seconds. Its outcome appears below."
        self.admin.message_user(request, text, messages.SUCCESS)


class RelayerIncidents(Panel):
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
