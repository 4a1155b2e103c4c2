"""`feeQuote`: the fee of a transaction in all tokens at once, expected and at most, with all that it rests on."""

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from chain.gas_price import GasPrice
from chain.native_fee import Gas
from relayer_service.amounts import Amount, rate_text, with_bps
from relayers.models import Relayer
from rpc.errors import RpcError
from rpc.fees.quote import FeeQuote as Quoted
from rpc.fees.quote import TokenFee, quote
from rpc.methods.base import Method
from rpc.methods.fee_quote_serializers import FeeQuoteParams, FeeQuoteResult
from rpc.relayer_lookup import RpcRelayer


class FeeQuote(Method):
    name = "feeQuote"
    extension = "quotes"
    network_type = Relayer.NetworkType.EVM
    params_class = FeeQuoteParams
    result_class = FeeQuoteResult

    def run(self, relayer: RpcRelayer, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"method": self.name, **result(quote(relayer, **params), time.time())}


def result(quoted: Quoted, now: float) -> dict[str, Any]:
    """Return a quote as callers get it: amounts of the native coin in its smallest unit, of tokens in whole ones."""
    fee = quoted.native
    return {
        "network": fee.network.name,
        "block_number": str(fee.head.number),
        "block_time": moment(fee.head.timestamp),
        "valid_until": moment(quoted.valid_until(now)),
        "gas": _gas(fee.gas),
        "gas_price": _price(fee.price),
        "gas_fee": _amount(fee.gas_fee),
        "l1_fee": _amount(fee.charges.l1_fee),
        "operator_fee": _amount(fee.charges.operator_fee),
        "blob_fee": _amount(fee.blob_fee),
        "native": {"symbol": fee.network.symbol, "decimals": fee.network.decimals, **_amount(fee.total)},
        "tokens": [
            {"fee_token": name, **({"error": found.body()} if isinstance(found, RpcError) else _token(found, now))}
            for name, found in quoted.tokens.items()
        ],
    }


def moment(timestamp: float) -> str:
    """Return a Unix time as RFC 3339 writes it, in UTC."""
    return datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _gas(gas: Gas) -> dict[str, str]:
    buffered = math.ceil(with_bps(gas.estimate, gas.buffer_bps))
    # The gas limit of the transaction or the network's cap may leave no room for all of it.
    buffer = max(0, min(buffered, math.ceil(gas.paid.maximum)) - gas.estimate)
    return {"estimate": str(gas.estimate), "buffer": str(buffer), **_amount(gas.paid)}


def _price(price: GasPrice) -> dict[str, str]:
    parts = {
        "base_fee": price.base_fee,
        "base_fee_source": price.base_fee_source,
        "priority_fee": price.priority_fee,
    }
    return {name: str(part) for name, part in parts.items() if part is not None} | _amount(price)


def _amount(amount: Amount | GasPrice) -> dict[str, str]:
    return {"expected": str(math.ceil(amount.expected)), "maximum": str(math.ceil(amount.maximum))}


def _token(fee: TokenFee, now: float) -> dict[str, Any]:
    return {
        "symbol": fee.symbol,
        **({"address": fee.address} if fee.address else {}),
        "decimals": fee.price.decimals,
        "expected": fee.expected_fee,
        "maximum": fee.maximum_fee,
        "conversion_rate": fee.conversion_rate,
        "margin_bps": fee.margin_bps,
        "sources": [
            {"name": source.name, "rate": rate_text(source.rate), "age_seconds": max(0, int(now) - source.updated_at)}
            for source in fee.price.sources
        ],
    }
