"""Relayers with fixed values, in the database."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from notifications.models import Notification
from relayer_service.storage.selections import Selection
from relayers.models import Relayer, RelayerHealth
from relayers.pausing import set_all_paused
from signers.models import Signer

# The first account that Hardhat and Anvil start with; its key is public.
KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
# What the service finds out.
HEALTH_COLUMNS = {field.name for field in RelayerHealth._meta.fields} - {"relayer", "network"}


def signer(identifier: str = "signer-1", key: str = KEY) -> Signer:
    """Return the signer with this id; one that is not there yet gets a local key."""
    found = Signer.objects.filter(identifier=identifier).first()
    if found is None:
        found = Signer(identifier=identifier, type="plain")
        found.set_config({"key": key})
        found.save()
    return found


def notification(identifier: str = "hook-1", url: str = "https://hooks.example.com/relayers") -> Notification:
    return Notification.objects.create(identifier=identifier, url=url)


def relayer(**changes: Any) -> Relayer:
    """Create a relayer, with changes of it and of its health; its own RPC URLs are given as `rpc_urls`."""
    rpc_urls = changes.pop("rpc_urls", [])
    values = {"identifier": "relayer-1", "name": "Relayer 1", "network": "sepolia", "address": ADDRESS} | {
        name: value for name, value in changes.items() if name not in HEALTH_COLUMNS
    }
    if "signer" not in values:
        values["signer"] = signer()
    created = Relayer(**values)
    created.set_rpc_urls(rpc_urls)
    found = {name: changes[name] for name in changes.keys() & HEALTH_COLUMNS}
    # Together: a check in another thread would find the health as it is before these changes.
    with transaction.atomic():
        created.save()
        set_health(created, network=created.network, **found)
    return created


def set_health(relayer: Relayer, **changes: Any) -> None:
    """Write what a check would find out."""
    for name, value in changes.items():
        setattr(relayer.health, name, value)
    RelayerHealth.objects.update_or_create(changes, relayer=relayer)


def set_paused(relayer: Relayer, paused: bool, reason: str = "") -> bool:
    """Pause or resume a relayer, as staff do; return False if nothing changed."""
    done = set_all_paused(Selection.from_keys([relayer.pk]), paused, reason)
    relayer.paused = paused
    return bool(done)
