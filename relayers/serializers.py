from __future__ import annotations

from typing import Any

import orjson

NO_URLS = "[]"
NO_POLICIES = "{}"


def represent(
    identifier: str,
    name: str,
    network: str,
    network_type: str,
    address: str,
    signer_id: str,
    notification_id: str | None,
    paused: bool,
    system_disabled: bool,
    reason_type: str,
    reason_details: str,
    masked_rpc_urls: str,
    policies: str,
) -> dict[str, Any]:
    """Give a relayer as answers show it: what is not set is left out.

    The JSON columns are text and stay it, as the amounts among the policies are larger than orjson reads or writes.
    """
    shown: dict[str, Any] = {"id": identifier, "name": name, "network": network, "network_type": network_type}
    if address:
        shown["address"] = address
    shown["signer_id"] = signer_id
    if notification_id is not None:
        shown["notification_id"] = notification_id
    shown["paused"] = paused
    shown["system_disabled"] = system_disabled
    if reason_type:
        shown["disabled_reason"] = {"details": reason_details, "type": reason_type}
    if masked_rpc_urls != NO_URLS:
        shown["custom_rpc_urls"] = orjson.Fragment(masked_rpc_urls)
    if policies != NO_POLICIES:
        shown["policies"] = orjson.Fragment(policies)
    return shown
