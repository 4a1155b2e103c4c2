"""Fee tokens in config files, with fixed values."""

from __future__ import annotations

from typing import Any

USDC_ADDRESS = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
LINK_ADDRESS = "0x514910771AF9Ca656af840dff83E8264EcF986CA"
TOKEN_USD = "0x8fFfFfd4AfB6115b954Bd326cbe7B4BA576818f6"
NATIVE_USD = "0x5f4eC3Df9cbd43714FE2740f5E3616155c5b8419"
TOKEN_NATIVE = "0xDC530D9457755926550b59e8ECcdaE7624181557"
SEQUENCER = "0xFdB631F5EE196F0ed6FAa767959853A9F217697D"
PAIR = "0xB4e16d0168e52d35CaCD2c6185b44281Ec28C9Dc"
WRAPPED = "0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2"

FIXED: dict[str, Any] = {"kind": "fixed", "rate": "3000.50", "max_age_seconds": 86_400}
CHAINLINK_USD: dict[str, Any] = {
    "kind": "chainlink_usd",
    "feed": TOKEN_USD,
    "heartbeat_seconds": 86_400,
    "native_feed": NATIVE_USD,
    "native_heartbeat_seconds": 3_600,
    "sequencer_feed": SEQUENCER,
    "sequencer_grace_seconds": 0,
}
CHAINLINK_NATIVE: dict[str, Any] = {
    "kind": "chainlink_native",
    "feed": TOKEN_NATIVE,
    "heartbeat_seconds": 2**31 - 1,
    "sequencer_grace_seconds": 3_600,
}
UNISWAP_V2: dict[str, Any] = {
    "kind": "uniswap_v2",
    "pair": PAIR,
    "wrapped_native": WRAPPED,
    "min_liquidity": 2**128 - 1,
}
EVERY_KIND = [FIXED, CHAINLINK_USD, CHAINLINK_NATIVE, UNISWAP_V2]

USDC: dict[str, Any] = {
    "network": "mainnet",
    "symbol": "USDC",
    "address": USDC_ADDRESS,
    "enabled": False,
    "margin_bps": 10_000,
    "max_spread_bps": 0,
    "sources": EVERY_KIND,
}
SPARSE: dict[str, Any] = {"network": "mainnet", "symbol": "LINK", "address": LINK_ADDRESS, "sources": [FIXED]}


def document(*tokens: Any) -> dict[str, Any]:
    return {"fee_tokens": list(tokens)}
