"""Relayers that need attention, on the overview."""

from typing import Any
from urllib.parse import urlencode

from django.db.models import CharField, DateTimeField, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Cast, Coalesce
from django.http import HttpRequest
from django.urls import reverse

from relayer_service.admin.attention import (
    LATE,
    AttentionGroup,
    AttentionItem,
    AttentionSubject,
    counts_of,
    first_of,
    number_of,
    number_of_all,
    read_once,
)
from relayer_service.audit.models import AuditEntry, type_of
from relayer_service.storage.clock import DatabaseNow
from relayers import health
from relayers.account import missing_address_reason
from relayers.formatting import VARIANTS, balance_and_limit
from relayers.models import NODES_FAILING, PROBLEMS, Relayer

TITLES = {
    "disabled": "Disabled relayers",
    "low balance": "Relayers with a low balance",
    "no address": "Relayers without an address",
    "nodes failing": "Relayers with failing nodes",
}
# The audited field whose change starts the problem.
FIELDS = {"disabled": "system_disabled", "low balance": "balance_is_low", "no address": "address"}
COLUMNS = [
    *("identifier", "name", "network", "policies", "balance_text", "balance_is_low", "disabled_reason_details"),
    *("failed_checks", "signer__type", "signer__last_error"),
]
CONDITIONS = {**PROBLEMS, "nodes failing": NODES_FAILING}


def relayers(request: HttpRequest) -> AttentionSubject | None:
    if not request.user.has_perm("relayers.view_relayer"):
        return None
    counts, rows = read_once(request, counts_by_state), read_once(request, first_relayers)
    groups = [
        AttentionGroup(title, [item(name, row) for row in rows[name]], counts[name], list_url(name), VARIANTS[name])
        for name, title in TITLES.items()
        if rows[name]
    ]
    if counts["late"]:
        page = reverse("admin:relayers_relayer_changelist")
        reason = f"Due for more than two minutes, as no worker has run them: {counts['late']:,}."
        groups.append(AttentionGroup("Late health checks", [AttentionItem("Checks", page, reason)], 1, page))
    return AttentionSubject("relayers", groups)


def counts_by_state() -> dict[str, int]:
    """Return the number of relayers: of all, by state, and of those whose check is late."""
    conditions = {**CONDITIONS, "late": Q(due_at__lt=DatabaseNow() - LATE)}
    counts = {name: number_of(Relayer.objects.filter(condition)) for name, condition in conditions.items()}
    return counts_of({"all": number_of_all(Relayer), **counts})


def first_relayers() -> dict[str, list[Any]]:
    """Return the first relayers with each problem, and since when they have it, if that is known."""
    shown = Relayer.objects.select_related("signer").only(*COLUMNS)
    return first_of({name: shown.annotate(since=start_of(name)) for name in TITLES}, CONDITIONS)


def start_of(name: str) -> Any:
    """Return the time of the newest change of a problem's field in the audit log."""
    if name not in FIELDS:
        return Value(None, output_field=DateTimeField())
    changes = AuditEntry.objects.filter(
        object_type=type_of(Relayer), object_pk=Cast(OuterRef("pk"), CharField()), changes__has_key=FIELDS[name]
    )
    newest = Subquery(changes.order_by("-at", "-id").values("at")[:1])
    # Without an address since it was created, if it never had one.
    return Coalesce(newest, F("created_at")) if name == "no address" else newest


def item(name: str, relayer: Any) -> AttentionItem:
    page = reverse("admin:relayers_relayer_change", args=[relayer.pk])
    what = f"{relayer.name} ({relayer.identifier}) on {relayer.network}"
    return AttentionItem(what, page, reason(name, relayer), relayer.since)


def reason(name: str, relayer: Relayer) -> str:
    if name == "disabled":
        return relayer.disabled_reason_details
    if name == "low balance":
        return f"Its balance is {balance_and_limit(relayer)}."
    if name == "no address":
        return missing_address_reason(relayer.signer)
    checks = "The last check" if relayer.failed_checks == 1 else f"The last {relayer.failed_checks} checks"
    return f"{checks} failed on every node; after {health.FAILURES_TO_DISABLE} failures in a row it is disabled."


def list_url(name: str) -> str:
    return f"{reverse('admin:relayers_relayer_changelist')}?{urlencode({'state': name})}"
