"""Fee tokens and the sources of their prices with fixed values, in the database; networks and accounts for fees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from chain.networks import networks
from rpc.models import FeeToken, PriceSource
from tests.chain.hardhat import Chain
from tests.relayers import factories as relayers

# Of a token that no chain has: for tests that ask no node for it.
TOKEN = "0x1111111111111111111111111111111111111111"
FEED = "0x2222222222222222222222222222222222222222"
NATIVE_FEED = "0x3333333333333333333333333333333333333333"
PAIR = "0x4444444444444444444444444444444444444444"
WRAPPED = "0x5555555555555555555555555555555555555555"
# A day, so that a price that was set when the tests began is fresh to their end.
DAY = 86_400

# The first accounts that Hardhat starts with; the keys are public. The relayers have the first one.
KEYS = [
    relayers.KEY,
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
]
AUTHORITY = "0x" + "11" * 32

# The rules of fees where the network has none.
RULES = {"tip_floor": 1_000_000, "base_fee_margin_bps": 2_000, "gas_buffer_bps": 1_000}
# Networks by their kind, and the rules that each has: the first has the service's defaults.
NETWORKS: dict[str, dict[str, int]] = {
    "none": {},
    "op-stack": {"tip_floor": 0, "base_fee_margin_bps": 3_333, "gas_buffer_bps": 1},
    "mantle": {"base_fee_margin_bps": 0, "l1_fee_margin_bps": 2_345},
    "arbitrum": {"tip_floor": 77_777_777, "gas_buffer_bps": 777},
    "scroll": {"tip_floor": 1},
}
# The contracts that stand at the address of a rollup, and on which of the networks.
ROLLUPS = {
    "none": "none",
    "GasPriceOracle": "op-stack",
    "IsthmusGasPriceOracle": "op-stack",
    "JovianGasPriceOracle": "op-stack",
    "MantleGasPriceOracle": "mantle",
    "NodeInterface": "arbitrum",
    "L1GasPriceOracle": "scroll",
}


@pytest.fixture
def fee_networks(settings: Settings, tmp_path: Path) -> Iterator[None]:
    """Know the node's chain under a name for each kind that a contract can stand for."""
    chain = {"chain_id": 31337, "symbol": "COIN", "decimals": 18, "block_seconds": 1}
    entries = {name: chain | {"kind": name} | rules for name, rules in NETWORKS.items()}
    (tmp_path / "networks.json").write_text(json.dumps({"networks": entries}))
    settings.NETWORKS_FILE = str(tmp_path / "networks.json")
    networks.cache_clear()
    yield
    networks.cache_clear()


def fee_token(**changes: Any) -> FeeToken:
    """Create a token, with changes; its decimals are unknown, as they have not been read yet."""
    values = {"network": "hardhat", "symbol": "USDC", "address": TOKEN, "max_spread_bps": 200} | changes
    return FeeToken.objects.create(**values)


def fixed_source(token: FeeToken, rate: str = "3000", **changes: Any) -> PriceSource:
    """Create a source with this rate, set now."""
    values = {"rate_text": rate, "rate_set_at": timezone.now(), "max_age_seconds": DAY}
    return price_source(token, PriceSource.Kind.FIXED, values | changes)


def chainlink_usd_source(
    token: FeeToken, feed: str = FEED, native_feed: str = NATIVE_FEED, **changes: Any
) -> PriceSource:
    """Create a source of two feeds: of the token's price in USD and of the native coin's."""
    values = {"heartbeat_seconds": DAY, "native_feed": native_feed, "native_heartbeat_seconds": DAY}
    return price_source(token, PriceSource.Kind.CHAINLINK_USD, {"feed": feed} | values | changes)


def chainlink_native_source(token: FeeToken, feed: str = FEED, **changes: Any) -> PriceSource:
    """Create a source of one feed: of the token's price in the native coin."""
    values = {"feed": feed, "heartbeat_seconds": DAY}
    return price_source(token, PriceSource.Kind.CHAINLINK_NATIVE, values | changes)


def pair_source(
    token: FeeToken, pair: str = PAIR, wrapped_native: str = WRAPPED, min_liquidity: int = 10**18, **changes: Any
) -> PriceSource:
    """Create a source that is a pair, which must hold at least so many wei of the wrapped coin."""
    values = {"pair": pair, "wrapped_native": wrapped_native, "min_liquidity_text": str(min_liquidity)}
    return price_source(token, PriceSource.Kind.UNISWAP_V2, values | changes)


def price_source(token: FeeToken, kind: PriceSource.Kind, values: dict[str, Any]) -> PriceSource:
    source = PriceSource(token=token, kind=kind, **values)
    # What staff could not have entered is no source that tests should have.
    source.full_clean()
    source.save()
    return source


def store(chain: Chain, address: str, *values: int | None) -> None:
    """Write the first slots of a contract's storage, but those that are None."""
    for slot, value in enumerate(values):
        if value is not None:
            chain.rpc("hardhat_setStorageAt", address, hex(slot), f"0x{value:064x}")
