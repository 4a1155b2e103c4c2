"""Writing a config file with all that `load_config` reads."""

from __future__ import annotations

from typing import Any

from relayers import config_dump
from relayers.config_references import Variables, escape
from rpc.config_entries import source_entry
from rpc.models import FeeToken


def dump(variables: Variables) -> dict[str, Any]:
    """Give all that is configured, in the order of its creation, with references to variables for secrets."""
    tokens = FeeToken.objects.order_by("pk").prefetch_related("sources")
    return {**config_dump.dump(variables), "fee_tokens": [dump_fee_token(token) for token in tokens]}


def dump_fee_token(token: FeeToken) -> dict[str, Any]:
    return {
        "network": escape(token.network),
        "symbol": escape(token.symbol),
        "address": token.address,
        "enabled": token.enabled,
        "margin_bps": token.margin_bps,
        "max_spread_bps": token.max_spread_bps,
        "sources": [source_entry(source) for source in token.sources.all()],
    }
