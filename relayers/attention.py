"""The relayers that need attention."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
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
from relayers.account import why_no_address
from relayers.formatting import VARIANTS, balance_and_limit
from relayers.models import NODES_FAILING, TROUBLES, Relayer

TITLES = {
    "disabled": "Relayers that are disabled",
    "low balance": "Relayers with a low balance",
    "no address": "Relayers without an address",
    "nodes failing": "Relayers whose nodes fail",
}
# The field whose change in the audit log began it.
FIELDS = {"disabled": "system_disabled", "low balance": "balance_is_low", "no address": "address"}
# What an item shows of a relayer.
COLUMNS = [
    *("identifier", "name", "network", "policies", "balance_text", "balance_is_low", "disabled_reason_details"),
    *("failed_checks", "signer__type", "signer__last_error"),
]
CONDITIONS = {**TROUBLES, "nodes failing": NODES_FAILING}


def relayers(request: HttpRequest) -> AttentionSubject | None:
    if not request.user.has_perm("relayers.view_relayer"):
        return None
    counts, rows = read_once(request, numbers), read_once(request, named)
    groups = [
        AttentionGroup(
            title, [item(name, relayer) for relayer in rows[name]], counts[name], list_of(name), VARIANTS[name]
        )
        for name, title in TITLES.items()
        if rows[name]
    ]
    if counts["late"]:
        page = reverse("admin:relayers_relayer_changelist")
        reason = f"Due for more than two minutes, as no worker has taken them: {counts['late']:,}."
        groups.append(AttentionGroup("Checks that are late", [AttentionItem("Checks", page, reason)], 1, page))
    return AttentionSubject("relayers", groups)


def numbers() -> dict[str, int]:
    """Return how many relayers there are, how many in which state, and how many whose check is late."""
    conditions = {**CONDITIONS, "late": Q(due_at__lt=DatabaseNow() - LATE)}
    counts = {name: number_of(Relayer.objects.filter(condition)) for name, condition in conditions.items()}
    return counts_of({"all": number_of_all(Relayer), **counts})


def named() -> dict[str, list[Any]]:
    """Return the first relayers in each kind of trouble, with the time at which it began, as far as that is known."""
    shown = Relayer.objects.select_related("signer").only(*COLUMNS)
    return first_of({name: shown.annotate(since=began(name)) for name in TITLES}, CONDITIONS)


def began(name: str) -> Any:
    """Return when a kind of trouble began: at the newest change of its field in the audit log."""
    if name not in FIELDS:
        return Value(None, output_field=DateTimeField())
    changes = AuditEntry.objects.filter(
        object_type=type_of(Relayer), object_pk=Cast(OuterRef("pk"), CharField()), changes__has_key=FIELDS[name]
    )
    newest = Subquery(changes.order_by("-at", "-id").values("at")[:1])
    # One that never had an address is without it since it was created.
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
        return why_no_address(relayer.signer)
    checks = "The last check" if relayer.failed_checks == 1 else f"The last {relayer.failed_checks} checks"
    limit = settings.HEALTH_FAILURES_TO_DISABLE
    return f"{checks} could not read it from any node; after {limit} in a row it is disabled."


def list_of(name: str) -> str:
    return f"{reverse('admin:relayers_relayer_changelist')}?{urlencode({'state': name})}"
