"""`feeEstimate`: the fee of a transaction in a chosen token, on EVM networks."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from relayer_service.api.serializers import StrictSerializer, StringField
from relayers.models import Relayer
from rpc.fees.quote import estimate
from rpc.methods.base import Method
from rpc.relayer_lookup import RpcRelayer


class FeeEstimateParams(StrictSerializer):
    """What a fee is asked for."""

    fee_token = StringField(
        help_text="The symbol or the address of a token that is registered for the network, or its coin's symbol."
    )
    network = StringField(help_text="The relayer's network, by its name or its type.")
    transaction = StringField(
        help_text="An encoded transaction, 0x and hexadecimal digits: legacy or of type 1 to 4, signed or not."
    )


class FeeEstimateResult(serializers.Serializer[Any]):
    """A fee."""

    estimated_fee = StringField(help_text="In whole tokens, a decimal number.")
    conversion_rate = StringField(help_text="Tokens for one native coin, a decimal number.")
    method = StringField(help_text="`feeEstimate`.")


class FeeEstimate(Method):
    name = "feeEstimate"
    network_type = Relayer.NetworkType.EVM
    params_class = FeeEstimateParams
    result_class = FeeEstimateResult

    def run(self, relayer: RpcRelayer, params: Mapping[str, Any]) -> dict[str, Any]:
        fee = estimate(relayer, **params)
        return {
            "estimated_fee": fee.maximum_fee,
            "conversion_rate": fee.conversion_rate,
            "method": self.name,
        }
