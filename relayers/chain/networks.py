"""The networks that relayers can be on: facts from `networks.json`, and what NETWORKS_FILE adds or replaces."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, ValidationError
from eth_utils.address import is_checksum_address

from relayer_service.net.addresses import validate_http_url

SHIPPED = Path(__file__).parent / "networks.json"


class L1Fee(StrEnum):
    """How a network charges for the data that it writes to the chain below it."""

    NONE = "none"
    OP_STACK = "op-stack"
    ARBITRUM = "arbitrum"


@dataclass(frozen=True)
class Network:
    name: str
    chain_id: int
    symbol: str
    decimals: int
    block_seconds: float
    l1_fee: L1Fee
    rpc_urls: tuple[str, ...]
    testnet: bool = False
    # How fees are quoted here unless a setting says so: the minimum priority fee in wei, and basis points.
    tip_floor: int | None = None
    base_fee_margin_bps: int | None = None
    gas_buffer_bps: int | None = None
    # Chainlink's feed of whether the sequencer of a rollup is up.
    sequencer_feed: str = ""
    network_type: str = "evm"

    @property
    def fee_rules(self) -> list[int]:
        """The fee rules that are set."""
        rules = (self.tip_floor, self.base_fee_margin_bps, self.gas_buffer_bps)
        return [rule for rule in rules if rule is not None]


def read(path: Path) -> dict[str, Network]:
    """Return the networks of a file; a mistake in it is a start-up error that says where it is."""
    try:
        entries = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ImproperlyConfigured(f"{path.name} cannot be read as JSON: {error}") from None
    if not isinstance(entries, dict) or not isinstance(entries.get("networks"), dict):
        raise ImproperlyConfigured(f"{path.name} must be an object with `networks`, an object by name")
    return {name: _network(path, name, entry) for name, entry in entries["networks"].items()}


def _network(path: Path, name: str, entry: Any) -> Network:
    known = {field.name for field in fields(Network)} - {"name", "network_type"}
    if not isinstance(entry, dict) or not set(entry) <= known:
        raise ImproperlyConfigured(f"{path.name}: {name} must be an object with some of {', '.join(sorted(known))}")
    try:
        network = Network(
            name=name,
            **{**entry, "l1_fee": L1Fee(entry.get("l1_fee", "none")), "rpc_urls": tuple(entry.get("rpc_urls", ()))},
        )
    except (TypeError, ValueError) as error:
        raise ImproperlyConfigured(f"{path.name}: {name}: {error}") from None
    if fault := _fault(network):
        raise ImproperlyConfigured(f"{path.name}: {name}: {fault}")
    for url in network.rpc_urls:
        try:
            if not isinstance(url, str):
                raise ValidationError("strings are required")
            validate_http_url(url)
        except ValidationError as error:
            raise ImproperlyConfigured(f"{path.name}: {name}: rpc_urls: {error.message}") from None
    return network


def _fault(network: Network) -> str:
    """Return what is wrong with a network, or nothing."""
    whole_numbers = (network.chain_id, network.decimals, *network.fee_rules)
    typed: list[tuple[Any, Any]] = [
        *((number, int) for number in whole_numbers),
        (network.symbol, str),
        (network.block_seconds, (int, float)),
        (network.testnet, bool),
        (network.sequencer_feed, str),
    ]
    for value, kind in typed:
        # A bool is an int.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            return f"{value!r} is of the wrong type"
    if network.chain_id < 1 or network.decimals < 0 or not 0 < network.block_seconds < math.inf:
        return "chain_id, decimals or block_seconds is out of range"
    if any(rule < 0 for rule in network.fee_rules):
        return "tip_floor, base_fee_margin_bps or gas_buffer_bps is out of range"
    if network.sequencer_feed and not is_checksum_address(network.sequencer_feed):
        return "sequencer_feed must be an address with its checksum"
    return ""


@cache
def networks() -> dict[str, Network]:
    """Return all networks by name."""
    found = read(SHIPPED)
    if settings.NETWORKS_FILE:
        found |= read(Path(settings.NETWORKS_FILE))
    return found
