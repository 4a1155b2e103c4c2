"""The panels of a relayer's page: its live status with a Check button, and its time line."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import format_html

from chain.nodes import failover
from chain.nodes.failover import NodeStatus
from relayer_service.audit.actors import ActorKind
from relayer_service.audit.models import AuditEntry
from relayer_service.background.shares import waiting_for_others
from relayer_service.console.dates import ago
from relayer_service.console.overview.dashboard import label
from relayer_service.console.panels import Panel, object_view
from relayer_service.console.references import link
from relayer_service.storage.encryption import DecryptionError
from relayers.console import formatting
from relayers.health.probes import missing_address_reason
from relayers.models import Relayer

HEADERS = ["Node", "Weight", "Health", "Latency", "Head block"]
MAX_ENTRIES = 15
# Texts for a state that begins, and for one that ends.
STATES = {
    "system_disabled": ("Disabled", "Enabled again"),
    "paused": ("Paused", "Resumed"),
    "balance_is_low": ("Balance low", "Balance recovered"),
}


class Status(Panel):
    """Which relayer it is, and its status, read from the nodes by another request, so that the page does not wait."""

    template = "admin/relayers/relayer/status_panel.html"
    views = ["status", "check"]

    def context(self, request: HttpRequest, relayer: Any) -> dict[str, Any]:
        check_url = self.url("check", relayer) if self.admin.has_check_permission(request, relayer) else ""
        formatting.note_missing_funds([relayer])
        facts = {
            "Name": relayer.name,
            "Network": relayer.network,
            "Address": formatting.address(relayer),
            "Signer": link(relayer.signer),
            "Tags": ", ".join(relayer.tags) or "none",
        }
        return {
            "identity": facts,
            "state": formatting.badges(relayer),
            "status_url": self.url("status", relayer),
            "check_url": check_url,
        }

    @object_view("view", method="GET")
    def status(self, request: HttpRequest, relayer: Any) -> HttpResponse:
        return render(request, "admin/relayers/relayer/status.html", status(relayer))

    @object_view("check")
    def check(self, request: HttpRequest, relayer: Any) -> None:
        self.admin.check_now(request, [relayer])


class TimeLine(Panel):
    """The newest entries of the relayer's audit log."""

    template = "admin/relayers/relayer/time_line.html"

    def context(self, request: HttpRequest, relayer: Relayer) -> dict[str, Any]:
        entries = [timeline_entry(entry) for entry in AuditEntry.objects.for_row(relayer)[:MAX_ENTRIES]]
        history_url = self.url("history", relayer)
        return {"time_line": {"entries": entries, "history_url": history_url}}


def timeline_entry(entry: AuditEntry) -> dict[str, Any]:
    actor = entry.who[:1].lower() + entry.who[1:]
    return {"at": entry.at, "change": ", ".join(_changes(entry)), "actor": actor, "reason": entry.reason}


def _changes(entry: AuditEntry) -> Iterator[str]:
    if entry.action != AuditEntry.Action.CHANGED:
        yield entry.get_action_display()
        return
    for name, (begun, ended) in STATES.items():
        # A change of the account clears its balance; only a check finds that a balance has recovered.
        is_cleared = name == "balance_is_low" and entry.actor_kind != ActorKind.HEALTH_CHECK
        if name in entry.changes and not is_cleared:
            yield begun if entry.changes[name][1] else ended
    if others := sorted(entry.changes.keys() - STATES):
        yield f"Changed: {', '.join(others)}"


def status(relayer: Any) -> dict[str, Any]:
    """Call the nodes of a relayer; return their status and the result of the last health check."""
    try:
        urls = relayer.node_urls()
        with waiting_for_others():
            rows = [row(node) for node in failover.statuses(urls, relayer.expected_chain_id)]
        fault = "" if rows else "There are no nodes: neither the relayer nor its network has RPC URLs."
    except DecryptionError:
        rows, fault = [], "The RPC URLs cannot be decrypted with the configured encryption keys."
    health = relayer.health
    formatting.note_missing_funds([relayer])
    facts = {
        "State": formatting.badges(relayer),
        "Nonce": "unknown" if health.nonce is None else str(health.nonce),
        "Balance": formatting.balance_and_limit(relayer),
        "Last check": ago(health.checked_at),
    }
    if health.balance_at and health.balance_at != health.checked_at:
        facts["Balance read"] = f"{ago(health.balance_at)}; later checks could not read it"
    if not relayer.address:
        facts["No address"] = missing_address_reason(relayer.signer)
    if health.system_disabled:
        facts["Reason"] = f"{health.disabled_reason_type}: {health.disabled_reason_details}"
    lacks_coins = bool(relayer.address) and health.balance == 0
    nodes = {"headers": HEADERS, "rows": rows}
    return {"facts": facts, "nodes": nodes, "fault": fault, "lacks_coins": lacks_coins}


def row(node: NodeStatus) -> list[str]:
    weight = str(node.weight) if node.weight else "0 (disabled)"
    head = "-" if node.head_block is None else f"{node.head_block:,}"
    latency = "-" if node.milliseconds is None else f"{node.milliseconds} ms"
    return [node.url, weight, health(node), latency, head]


def health(node: NodeStatus) -> str:
    badge = label("failed", "danger") if node.error else label("ok", "success")
    breaker = label("circuit open", "warning") if node.paused else ""
    return format_html('<span class="node-health">{}{}<span>{}</span></span>', badge, breaker, node.error)
