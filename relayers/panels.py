"""The panel of a relayer's page: its live status, and the button that has it checked."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import format_html

from relayer_service.admin.dashboard import ago, label
from relayer_service.admin.panels import Panel, object_view
from relayer_service.storage.encryption import DecryptionError
from relayers import dashboard
from relayers.account import why_no_address
from relayers.chain import nodes
from relayers.chain.nodes import NodeStatus

HEADERS = ["Node", "Weight", "Health", "Latency", "Head block"]


class Status(Panel):
    """Asks the nodes in a request of its own, so that the page need not wait for them."""

    template = "admin/relayers/relayer/status_panel.html"
    views = ["status", "check"]

    def context(self, request: HttpRequest, relayer: Any) -> dict[str, Any]:
        may_check = self.admin.has_change_permission(request, relayer)
        return {
            "status_url": self.url("status", relayer),
            "check_url": self.url("check", relayer) if may_check else "",
        }

    @object_view("view", method="GET")
    def status(self, request: HttpRequest, relayer: Any) -> HttpResponse:
        return render(request, "admin/relayers/relayer/status.html", status(relayer))

    @object_view("change")
    def check(self, request: HttpRequest, relayer: Any) -> None:
        self.admin.check_now(request, [relayer])


def status(relayer: Any) -> dict[str, Any]:
    """Ask the nodes of a relayer; return what they and the last health check have found."""
    try:
        rows = [row(node) for node in nodes.statuses(relayer.node_urls(), relayer.expected_chain_id)]
        fault = "" if rows else "There is no node to ask: neither the relayer nor its network has RPC URLs."
    except DecryptionError:
        rows, fault = [], "The RPC URLs cannot be opened with the encryption keys that are set."
    facts = {
        "State": dashboard.badges(relayer),
        "Nonce": "unknown" if relayer.nonce is None else str(relayer.nonce),
        "Balance": dashboard.balance_and_limit(relayer),
        "Last check": ago(relayer.checked_at),
    }
    if not relayer.address:
        facts["No address"] = why_no_address(relayer.signer)
    if relayer.system_disabled:
        facts["Reason"] = f"{relayer.disabled_reason_type}: {relayer.disabled_reason_details}"
    return {"facts": facts, "nodes": {"headers": HEADERS, "rows": rows}, "fault": fault}


def row(node: NodeStatus) -> list[str]:
    weight = str(node.weight) if node.weight else "0, off"
    head = "-" if node.head_block is None else f"{node.head_block:,}"
    latency = "-" if node.milliseconds is None else f"{node.milliseconds} ms"
    return [node.url, weight, health(node), latency, head]


def health(node: NodeStatus) -> str:
    badge = label("failed", "danger") if node.error else label("ok", "success")
    # By the circuit breaker; staff pause relayers, not nodes.
    breaker = label("circuit open", "warning") if node.paused else ""
    return format_html('<span class="node-health">{}{}<span>{}</span></span>', badge, breaker, node.error)
