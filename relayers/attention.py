"""Relayers on the overview: those that need attention, and how many are in which state."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import CharField, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast, Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from relayer_service.admin.attention import (
    LATE,
    Checked,
    Found,
    Kind,
    Line,
    counts_of,
    first_of,
    number_of,
    number_of_all,
    once,
)
from relayer_service.admin.dashboard import Card, label, link
from relayer_service.audit.models import AuditEntry, type_of
from relayers.account import why_no_address
from relayers.dashboard import VARIANTS, balance_and_limit
from relayers.models import NODES_FAILING, TROUBLES, Relayer

TITLES = {
    "disabled": "Relayers that are disabled",
    "low balance": "Relayers with a low balance",
    "no address": "Relayers without an address",
    "nodes failing": "Relayers whose nodes fail",
}
# The field whose change in the audit log began it.
FIELDS = {"disabled": "system_disabled", "low balance": "balance_is_low", "no address": "address"}
CONDITIONS = {**TROUBLES, "nodes failing": NODES_FAILING}
# States that staff choose.
CALM = {"paused"}


def relayers(request: HttpRequest) -> Checked | None:
    if not request.user.has_perm("relayers.view_relayer"):
        return None
    kinds = [
        Kind(TITLES[name], [line(name, relayer) for relayer in found.rows], found.total, list_of(name))
        for name, found in once(request, named).items()
        if found.total
    ]
    late = once(request, others)["late"]
    if late:
        page = reverse("admin:relayers_relayer_changelist")
        waiting = Line("Checks", page, f"Due for more than two minutes, as no worker has taken them: {late:,}.")
        kinds.append(Kind("Checks that are late", [waiting], 1, page))
    return Checked("relayers", kinds)


def by_state(request: HttpRequest) -> Card | None:
    """Return the card of how many relayers there are, and how many in which state."""
    if not request.user.has_perm("relayers.view_relayer"):
        return None
    counts = {name: each.total for name, each in once(request, named).items()} | once(request, others)
    page = reverse("admin:relayers_relayer_changelist")
    rows = [[link(name.capitalize(), list_of(name)), marked(name, counts[name])] for name in CONDITIONS]
    return Card("Relayers", [[link("All", page), f"{counts['all']:,}"], *rows], url=page)


def marked(name: str, count: int) -> str:
    return f"{count:,}" if name in CALM or not count else label(f"{count:,}", VARIANTS[name])


def named() -> dict[str, Found]:
    """Return the first relayers in each kind of trouble."""
    return first_of({name: in_trouble(name) for name in TITLES})


def others() -> dict[str, int]:
    """Return how many relayers there are, how many are in states that name nobody, and how many checks are late."""
    unnamed = {name: condition for name, condition in CONDITIONS.items() if name not in TITLES}
    conditions = {**unnamed, "late": Q(due_at__lt=timezone.now() - LATE)}
    counts = {name: number_of(Relayer.objects.filter(condition)) for name, condition in conditions.items()}
    return counts_of({"all": number_of_all(Relayer), **counts})


def in_trouble(name: str) -> QuerySet[Any]:
    """Return the relayers in a kind of trouble, each with the time at which it began, as far as that is known."""
    relayers = Relayer.objects.filter(CONDITIONS[name]).select_related("signer")
    changes = AuditEntry.objects.filter(
        object_type=type_of(Relayer),
        object_pk=Cast(OuterRef("pk"), CharField()),
        changes__has_key=FIELDS.get(name, "failed_checks"),
    )
    began = Subquery(changes.order_by("-at", "-id").values("at")[:1])
    # One that never had an address is without it since it was created.
    since = Coalesce(began, F("created_at")) if name == "no address" else began
    found: QuerySet[Any] = relayers.annotate(since=since)
    return found


def line(name: str, relayer: Any) -> Line:
    page = reverse("admin:relayers_relayer_change", args=[relayer.pk])
    what = f"{relayer.name} ({relayer.identifier}) on {relayer.network}"
    return Line(what, page, reason(name, relayer), relayer.since)


def reason(name: str, relayer: Relayer) -> str:
    if name == "disabled":
        return relayer.disabled_reason_details
    if name == "low balance":
        return f"Its balance is {balance_and_limit(relayer)}."
    if name == "no address":
        return why_no_address(relayer.signer)
    checks = "The last check" if relayer.failed_checks == 1 else f"The last {relayer.failed_checks} checks"
    limit = settings.HEALTH_FAILURES_TO_DISABLE
    return f"{checks} could not read it from any node; after {limit} in a row it is disabled."


def list_of(name: str) -> str:
    return f"{reverse('admin:relayers_relayer_changelist')}?{urlencode({'state': name})}"
