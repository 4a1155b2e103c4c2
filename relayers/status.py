"""The live status of a relayer, as its page in the admin shows it."""

from __future__ import annotations

from typing import Any

from django.utils.html import format_html

from relayer_service.admin.dashboard import ago, label
from relayer_service.storage.encryption import DecryptionError
from relayers import dashboard
from relayers.chain import nodes
from relayers.chain.nodes import NodeStatus

HEADERS = ["Node", "Weight", "Health", "Latency", "Head block"]


def context(relayer: Any) -> dict[str, Any]:
    """Ask the nodes of a relayer, and say what they and the last health check have told."""
    try:
        rows = [row(node) for node in nodes.statuses(relayer.node_urls(), relayer.expected_chain_id)]
        fault = "" if rows else "There is no node to ask: neither the relayer nor its network has RPC URLs."
    except DecryptionError:
        rows, fault = [], "The RPC URLs cannot be opened with the encryption keys that are set."
    facts = {
        "State": dashboard.badge(relayer.state),
        "Nonce": "unknown" if relayer.nonce is None else str(relayer.nonce),
        "Balance": dashboard.balance(relayer),
        "Last check": ago(relayer.checked_at),
    }
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
    pause = label("paused", "warning") if node.paused else ""
    return format_html('<span class="node-health">{}{}<span>{}</span></span>', badge, pause, node.error)
