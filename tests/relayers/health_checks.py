"""Relayers whose check is due, and what came of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
from django.utils import timezone

from notifications.models import Delivery
from relayers.health.checking import AccountReading, check_due
from relayers.models import Relayer, RelayerHealth
from tests.relayers import factories

CHAIN = 31337
TEN_THOUSAND = 10_000 * 10**18
OTHER_ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
READ = AccountReading(nonce=7, balance=100)
UNREAD = AccountReading(reason="connection failed")
DETAILS = "The nonce could not be read from any node: connection failed."
REASON = {"system_disabled": True, "disabled_reason_type": "NonceSyncFailed", "disabled_reason_details": DETAILS}
NO_REASON = {"system_disabled": False, "disabled_reason_type": "", "disabled_reason_details": ""}


def on_nodes(*urls: str, **values: Any) -> Relayer:
    """Create a relayer on these nodes whose check is due."""
    changes = {"network": "local", "chain_id": CHAIN, "due_at": timezone.now() - timedelta(seconds=1)} | values
    return factories.relayer(rpc_urls=[{"url": url, "weight": 50} for url in urls], **changes)


def make_due() -> None:
    RelayerHealth.objects.update(due_at=timezone.now() - timedelta(seconds=1))


def check() -> Relayer:
    """Check the one relayer that there is, and return it as it is then."""
    make_due()
    assert check_due() == 1
    return Relayer.objects.get()


def state(relayer: Relayer) -> dict[str, Any]:
    return {name: getattr(relayer.health, name) for name in NO_REASON}


def bodies() -> list[Any]:
    return [orjson.loads(bytes(delivery.body)) for delivery in Delivery.objects.order_by("pk")]
