"""Asking for estimates through a relayer, at any node."""

from __future__ import annotations

from typing import Any

from relayers.models import Relayer
from rpc import dispatch
from tests.chain.answering_node import unsigned
from tests.relayers import factories


def relayer_at(*urls: str, **changes: Any) -> Relayer:
    """Create a relayer on the local network that asks these nodes."""
    rpc_urls = [{"url": url, "weight": 100} for url in urls]
    return factories.relayer(**{"network": "hardhat", "rpc_urls": rpc_urls, **changes})


def ask(relayer: Relayer, fee_token: str = "ETH", transaction: str = "", network: str = "hardhat") -> dict[str, Any]:
    """Ask for an estimate as a caller does: of a transfer, unless a transaction is given."""
    params = {"fee_token": fee_token, "network": network, "transaction": transaction or unsigned()}
    return dispatch.answer(relayer, "feeEstimate", params)


def quote(relayer: Relayer, transaction: str = "", **params: Any) -> dict[str, Any]:
    """Ask for a quote as a caller does, where the extension `quotes` is on."""
    params = {"network": "hardhat", "transaction": transaction or unsigned(), **params}
    return dispatch.answer(relayer, "feeQuote", params)


def fee(estimated_fee: str) -> dict[str, Any]:
    """Return an estimate in the native coin."""
    return {"result": {"estimated_fee": estimated_fee, "conversion_rate": "1", "method": "feeEstimate"}}


def failure(code: int, message: str, description: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "description": description}}
