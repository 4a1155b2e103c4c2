"""Config files with fixed values, and running `load_config` on them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from notifications.models import Delivery, Notification
from relayers.models import Relayer
from rpc.models import FeeToken, PriceSource
from signers.models import Signer
from tests.relayers.factories import ADDRESS, KEY
from tests.relayers.stub_nodes import StubNodes

# The second account that Hardhat and Anvil start with; its key is public.
OTHER_KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
OTHER_ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"

SIGNER = {"id": "signer-1", "type": "plain", "config": {"key": KEY}}
NOTIFICATION = {
    "id": "hook-1",
    "type": "webhook",
    "url": "https://hooks.example.com/relayers",
    "signing_key": "hook-key-SECRET",
}
SPARSE = {"id": "relayer-1", "name": "Relayer 1", "network": "sepolia", "network_type": "evm", "signer_id": "signer-1"}


def full_relayer(nodes: StubNodes) -> dict[str, Any]:
    """An entry that leaves nothing out."""
    return {
        "id": "relayer-1",
        "name": "Relayer 1",
        "network": "private-chain",
        "network_type": "evm",
        "chain_id": 777,
        "address": ADDRESS,
        "signer_id": "signer-1",
        "notification_id": "hook-1",
        "paused": True,
        "custom_rpc_urls": [{"url": nodes.url(777), "weight": 70}, {"url": nodes.url(777, "other"), "weight": 0}],
        "policies": {
            "eip1559_pricing": True,
            "gas_limit_estimation": False,
            "gas_price_cap": 2**53 + 1,
            "min_balance": 2**128 - 1,
            "private_transactions": False,
            "whitelist_receivers": [OTHER_ADDRESS],
        },
        "allow_signing": ["messages", "typed_data"],
    }


def document(*relayers: dict[str, Any], signer: dict[str, Any] | None = SIGNER, **lists: Any) -> dict[str, Any]:
    signers = [signer] if signer else []
    return {"signers": signers, "notifications": [NOTIFICATION], "relayers": list(relayers)} | lists


def load(content: Any, folder: Path, *options: str) -> tuple[list[str], list[str]]:
    """Run the command on a file with this content; return the lines on standard output and standard error."""
    file = folder / "config.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    output, errors = io.StringIO(), io.StringIO()
    call_command("load_config", str(file), *options, stdout=output, stderr=errors)
    return output.getvalue().splitlines(), errors.getvalue().splitlines()


def faults(content: Any, folder: Path) -> list[str]:
    """Return the faults for which a file is refused; nothing may have changed."""
    before = rows()
    with pytest.raises(CommandError) as raised:
        load(content, folder)
    assert raised.value.returncode == 1
    assert rows() == before
    head, *lines = str(raised.value).split("\n  ")
    assert head == f"Nothing was changed. Errors in {folder / 'config.json'}:"
    return lines


def rows() -> list[Any]:
    """Return every column of every row, with secrets as they are sealed."""
    tables = (Signer, Notification, Relayer, Delivery, FeeToken, PriceSource)
    return [list(model.objects.order_by("pk").values()) for model in tables]
