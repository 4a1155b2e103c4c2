"""What `feeQuote` takes and returns."""

from typing import Any

from rest_framework import serializers

from chain.fee_history import SPEEDS, BaseFeeSource
from relayer_service.amounts import BASIS_POINTS
from relayer_service.api.serializers import ChoiceField, IntegerField, ListField, StringField
from rpc.methods.fee_estimate import FeeEstimateParams

# A network has few tokens, and a node takes only so many calls at once.
MAX_TOKENS = 100
MAX_DECIMALS = 255
MAX_AGE_SECONDS = 2**53 - 1
WEI = "In the native coin's smallest unit, a whole number."


class FeeQuoteParams(FeeEstimateParams):
    """What a fee is asked for, in which tokens, and for what speed."""

    fee_token = None  # type: ignore[assignment]  # how a serializer leaves out a field of its base
    fee_tokens = ListField(
        child=StringField(),
        required=False,
        max_length=MAX_TOKENS,
        help_text="Symbols or addresses of tokens that are registered for the network, or its coin's symbol. Without "
        "it, all tokens of the network.",
    )
    speed = ChoiceField(
        list(SPEEDS),
        required=False,
        help_text="How soon the transaction is to be included, as the percentile of priority fees that is offered: "
        f"{', '.join(f'{name} {percentile}' for name, percentile in SPEEDS.items())}. Without it, how full the last "
        "blocks were decides.",
    )


class QuotedAmount(serializers.Serializer[Any]):
    """What is expected to be paid, and the maximum."""

    expected = StringField(help_text=WEI)
    maximum = StringField(help_text=WEI)


class QuotedGas(serializers.Serializer[Any]):
    """The gas that is paid for."""

    estimate = StringField(help_text="What the node estimates, or the transaction's own gas limit.")
    buffer = StringField(help_text="What is added to it for the maximum.")
    expected = StringField(help_text="The gas that is expected to be paid for.")
    maximum = StringField(help_text="The gas that is paid for at most.")


class QuotedPrice(serializers.Serializer[Any]):
    """The price of a unit of gas."""

    base_fee = StringField(
        required=False, help_text=f"Of the next block. {WEI} Missing where the node names one price."
    )
    base_fee_source = ChoiceField(
        [str(source) for source in BaseFeeSource], required=False, help_text="Where the base fee comes from."
    )
    priority_fee = StringField(required=False, help_text=WEI)
    expected = StringField(help_text=WEI)
    maximum = StringField(help_text=f"With the margin for a base fee that rises. {WEI}")


class QuotedNative(QuotedAmount):
    """The whole fee in the network's coin."""

    symbol = StringField()
    decimals = IntegerField(max_value=MAX_DECIMALS)


class QuotedSource(serializers.Serializer[Any]):
    """What one source of a token's price says."""

    name = StringField()
    rate = StringField(help_text="Tokens for one native coin, a decimal number.")
    age_seconds = IntegerField(max_value=MAX_AGE_SECONDS, help_text="How long ago the source set it.")


class QuotedFault(serializers.Serializer[Any]):
    """Why there is no fee in a token."""

    code = IntegerField(min_value=-32_768, max_value=-32_000)
    message = StringField()
    description = StringField()


class QuotedToken(serializers.Serializer[Any]):
    """The whole fee in a token, or the error that says why there is none."""

    fee_token = StringField(help_text="As it was asked for, else the symbol.")
    symbol = StringField(required=False)
    address = StringField(required=False, help_text="Missing for the network's coin.")
    decimals = IntegerField(required=False, max_value=MAX_DECIMALS)
    expected = StringField(required=False, help_text="In whole tokens, a decimal number.")
    maximum = StringField(required=False, help_text="In whole tokens: what `feeEstimate` returns as `estimated_fee`.")
    conversion_rate = StringField(required=False, help_text="Tokens for one native coin, a decimal number.")
    margin_bps = IntegerField(required=False, max_value=BASIS_POINTS, help_text="Included, in basis points.")
    sources = QuotedSource(many=True, required=False)
    error = QuotedFault(required=False)


class FeeQuoteResult(serializers.Serializer[Any]):
    """A fee with all that it rests on."""

    method = StringField(help_text="`feeQuote`.")
    network = StringField(help_text="The network's name.")
    block_number = StringField(help_text="The block after which it holds.")
    block_time = serializers.DateTimeField()
    valid_until = serializers.DateTimeField(help_text="When the next block is due, or a price gets stale.")
    gas = QuotedGas()
    gas_price = QuotedPrice()
    gas_fee = QuotedAmount()
    l1_fee = QuotedAmount(help_text="What a rollup charges for its data on L1, beside gas.")
    operator_fee = QuotedAmount()
    blob_fee = QuotedAmount()
    native = QuotedNative()
    tokens = QuotedToken(many=True)
