"""`feeQuote`: the expected and the maximum fee of a transaction in several tokens, with all their parts."""

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers

from chain.fees.fee_history import SPEEDS, BaseFeeSource
from chain.fees.gas_price import GasPrice
from chain.fees.native_fee import Gas
from relayer_service.amounts import BASIS_POINTS, Amount, rate_text, with_bps
from relayer_service.api.serializers import ChoiceField, IntegerField, ListField, StringField, TimestampField
from relayer_service.database.clock import timestamp
from relayers.models import Relayer
from rpc.errors import RpcError
from rpc.fees.quote import FeeQuote as Quoted
from rpc.fees.quote import TokenFee, quote
from rpc.methods.base import Method
from rpc.methods.fee_estimate import FeeEstimateParams

# Nodes limit the calls in a batch.
MAX_TOKENS = 100
MAX_DECIMALS = 255
MAX_AGE_SECONDS = 2**53 - 1
WEI = "A whole number of the native coin's smallest unit."


class FeeQuoteParams(FeeEstimateParams):
    """The transaction, the tokens and the speed of a quote."""

    fee_token = None  # type: ignore[assignment]  # removes a field of the base serializer
    fee_tokens = ListField(
        child=StringField(),
        required=False,
        max_length=MAX_TOKENS,
        help_text="Symbols or addresses of tokens registered for the network, or the symbol of its coin. By default, "
        "all tokens of the network.",
    )
    speed = ChoiceField(
        list(SPEEDS),
        required=False,
        help_text="How soon the transaction should be included, as a percentile of recent priority fees: "
        f"{', '.join(f'{name} {percentile}' for name, percentile in SPEEDS.items())}. By default, it depends on how "
        "full recent blocks are.",
    )


class QuotedAmount(serializers.Serializer[Any]):
    """The expected and the maximum amount."""

    expected = StringField(help_text=WEI)
    maximum = StringField(help_text=WEI)


class QuotedGas(serializers.Serializer[Any]):
    """The gas to pay for."""

    estimate = StringField(help_text="The node's estimate, or the transaction's gas limit.")
    buffer = StringField(help_text="Added to the estimate for the maximum.")
    expected = StringField(help_text="The expected gas.")
    maximum = StringField(help_text="The maximum gas.")


class QuotedPrice(serializers.Serializer[Any]):
    """The price of a unit of gas."""

    base_fee = StringField(
        required=False, help_text=f"Of the next block. {WEI} Omitted if the node reports a single price."
    )
    base_fee_source = ChoiceField(
        [str(source) for source in BaseFeeSource], required=False, help_text="The source of the base fee."
    )
    priority_fee = StringField(required=False, help_text=WEI)
    expected = StringField(help_text=WEI)
    maximum = StringField(help_text=f"Includes a margin for a rising base fee. {WEI}")


class QuotedNative(QuotedAmount):
    """The total fee in the network's coin."""

    symbol = StringField()
    decimals = IntegerField(max_value=MAX_DECIMALS)


class QuotedSource(serializers.Serializer[Any]):
    """The price of one source."""

    name = StringField()
    rate = StringField(help_text="Tokens for one native coin, as a decimal number.")
    age_seconds = IntegerField(max_value=MAX_AGE_SECONDS, help_text="Age of the price.")


class QuotedFault(serializers.Serializer[Any]):
    """The error of a token without a fee."""

    code = IntegerField(min_value=-32_768, max_value=-32_000)
    message = StringField()
    description = StringField()


class QuotedToken(serializers.Serializer[Any]):
    """The total fee in a token, or an error."""

    fee_token = StringField(help_text="As in the request, else the symbol.")
    symbol = StringField(required=False)
    address = StringField(required=False, help_text="Omitted for the network's coin.")
    decimals = IntegerField(required=False, max_value=MAX_DECIMALS)
    expected = StringField(required=False, help_text="A decimal number of whole tokens.")
    maximum = StringField(required=False, help_text="In whole tokens: the `estimated_fee` of `feeEstimate`.")
    conversion_rate = StringField(required=False, help_text="Tokens for one native coin, as a decimal number.")
    margin_bps = IntegerField(required=False, max_value=BASIS_POINTS, help_text="Included, in basis points.")
    sources = QuotedSource(many=True, required=False)
    error = QuotedFault(required=False)


class FeeQuoteResult(serializers.Serializer[Any]):
    """A fee with all its parts."""

    method = StringField(help_text="`feeQuote`.")
    network = StringField(help_text="The network's name.")
    block_number = StringField(help_text="The node's head block.")
    block_time = TimestampField()
    valid_until = TimestampField(help_text="When the next block is due or a price becomes stale.")
    gas = QuotedGas()
    gas_price = QuotedPrice()
    gas_fee = QuotedAmount()
    l1_fee = QuotedAmount(help_text="The charge of a rollup for data on L1, in addition to gas.")
    operator_fee = QuotedAmount()
    blob_fee = QuotedAmount()
    native = QuotedNative()
    tokens = QuotedToken(many=True)


class FeeQuote(Method):
    name = "feeQuote"
    extension = "quotes"
    network_type = Relayer.NetworkType.EVM
    params_class = FeeQuoteParams
    result_class = FeeQuoteResult

    def run(self, relayer: Relayer, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"method": self.name, **result(quote(relayer, **params), time.time())}


def result(quoted: Quoted, now: float) -> dict[str, Any]:
    """Return the JSON of a quote: the native coin in its smallest unit, tokens in whole ones."""
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


def moment(seconds: float) -> str:
    """Return a Unix time in the format of API responses."""
    return timestamp(datetime.fromtimestamp(seconds, UTC))


def _gas(gas: Gas) -> dict[str, str]:
    buffered = math.ceil(with_bps(gas.estimate, gas.buffer_bps))
    # The gas limit of the transaction or the network's cap may cut the buffer.
    buffer = max(0, min(buffered, math.ceil(gas.paid.maximum)) - gas.estimate)
    return {"estimate": str(gas.estimate), "buffer": str(buffer), **_amount(gas.paid)}


def _price(price: GasPrice) -> dict[str, str]:
    parts = {"base_fee": price.base_fee, "base_fee_source": price.base_fee_source, "priority_fee": price.priority_fee}
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
