"""What the overview shows of incidents: the page of each cause's incident, and routes whose alerts fail."""

from collections.abc import Callable, Mapping, Sequence

from django.db.models import Count, Min, Q
from django.http import HttpRequest
from django.urls import reverse

from incidents.console.panels import VIEW
from incidents.kinds import key_of
from incidents.models import AlertMessage, Incident
from relayer_service.console.overview.attention import AttentionSubject, Cause

FAILING = "alerts.failing"
REASON = "Their last attempts failed. See the alerts on the pages of the routes."


def urls(request: HttpRequest) -> Callable[[Sequence[Cause]], Mapping[str, str]] | None:
    """Return what finds the page of the incident of each cause by its key."""
    return pages if request.user.has_perm(VIEW) else None


def pages(causes: Sequence[Cause]) -> Mapping[str, str]:
    if not causes:
        return {}
    found = Incident.objects.filter(ended_at=None, key__in={key_of(cause) for cause in causes})
    keys = dict(found.values_list("key", "pk"))
    return {
        cause.key: reverse("admin:incidents_incident_change", args=[keys[key_of(cause)]])
        for cause in causes
        if key_of(cause) in keys
    }


def attention(request: HttpRequest) -> AttentionSubject | None:
    if not request.user.has_perm("incidents.view_alertroute"):
        return None
    state = AlertMessage.State.PENDING
    # Whoever sends a test sees its error on the page.
    failing = AlertMessage.objects.filter(~Q(error=""), state=state, incident__isnull=False, route__enabled=True)
    found = failing.aggregate(number=Count("route", distinct=True), since=Min("created_at"))
    if not found["number"]:
        return AttentionSubject("alerts", [])
    page = reverse("admin:incidents_alertroute_changelist")
    values = (FAILING, "", "Alerts cannot be sent", found["number"], "route", page, found["since"], "danger", REASON)
    return AttentionSubject("alerts", [Cause(*values)])
