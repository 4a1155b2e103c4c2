"""Writing a config file that `load_config` reads: everything but the secrets, which are left to variables."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from notifications.models import Notification
from relayer_service.net.addresses import MASK, mask
from relayer_service.storage.encryption import DecryptionError
from relayers.config_references import Variables, escape
from relayers.models import Relayer
from relayers.policies import POLICIES
from signers.configs import CONFIGS
from signers.models import Signer
from signers.types import SignerType


def dump(variables: Variables) -> dict[str, Any]:
    """Give all that is configured, in the order of its creation, with references to variables for secrets."""
    relayers = Relayer.objects.select_related("signer", "notification")
    return {
        "signers": [dump_signer(signer, variables) for signer in Signer.objects.order_by("sequence")],
        "notifications": [
            dump_notification(notification, variables) for notification in Notification.objects.order_by("sequence")
        ],
        "relayers": [dump_relayer(relayer, variables) for relayer in relayers.order_by("sequence")],
    }


def dump_signer(signer: Signer, variables: Variables) -> dict[str, Any]:
    config = {}
    for name, field in CONFIGS[SignerType(signer.type)]().fields.items():
        if name in signer.config:
            config[name] = escape(signer.config[name])
        elif field.required:
            config[name] = variables.reference("signer", signer.identifier, name)
    return {"id": escape(signer.identifier), "type": signer.type, "config": config}


def dump_notification(notification: Notification, variables: Variables) -> dict[str, Any]:
    url = escape(notification.url)
    # A name and a password may stand in it.
    if "@" in urlsplit(notification.url).netloc:
        url = variables.reference("notification", notification.identifier, "url")
    dumped = {"id": escape(notification.identifier), "type": notification.type, "url": url}
    if notification.has_signing_key:
        dumped["signing_key"] = variables.reference("notification", notification.identifier, "signing_key")
    return dumped


def dump_relayer(relayer: Relayer, variables: Variables) -> dict[str, Any]:
    """Give a relayer; what is not set is left out."""
    dumped: dict[str, Any] = {
        "id": escape(relayer.identifier),
        "name": escape(relayer.name),
        "network": escape(relayer.network),
        "network_type": relayer.network_type,
    }
    if relayer.chain_id is not None:
        dumped["chain_id"] = relayer.chain_id
    if relayer.address:
        dumped["address"] = relayer.address
    dumped["signer_id"] = escape(relayer.signer.identifier)
    if relayer.notification is not None:
        dumped["notification_id"] = escape(relayer.notification.identifier)
    dumped["paused"] = relayer.paused
    if relayer.masked_rpc_urls:
        dumped["custom_rpc_urls"] = [
            {
                "url": escape(url)
                if url
                else variables.reference("relayer", relayer.identifier, "rpc_url", f"{number}"),
                "weight": weight,
            }
            for number, (url, weight) in enumerate(open_urls(relayer), start=1)
        ]
    if relayer.policies:
        names = POLICIES[relayer.network_type]().fields
        dumped["policies"] = {name: relayer.policies[name] for name in names if name in relayer.policies}
    return dumped


def open_urls(relayer: Relayer) -> list[tuple[str, int]]:
    """Give a relayer's own RPC URLs, empty where one may hold a key or cannot be read."""
    try:
        own = relayer.custom_rpc_urls or []
    except DecryptionError:
        return [("", entry["weight"]) for entry in relayer.masked_rpc_urls]
    return [("" if mask(entry["url"]).endswith(f"/{MASK}") else entry["url"], entry["weight"]) for entry in own]
