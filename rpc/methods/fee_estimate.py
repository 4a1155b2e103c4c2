"""`feeEstimate`: the fee of a transaction in a chosen token, on EVM networks."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from relayer_service.api.serializers import StrictSerializer, StringField
from relayers.models import Relayer
from rpc.fees.quote import estimate
from rpc.methods.base import Method


class FeeEstimateParams(StrictSerializer):
    """The transaction and the token of an estimate."""

    fee_token = StringField(
        help_text="The symbol or address of a token registered for the network, or the symbol of the network's coin."
    )
    network = StringField(help_text="The name or the type of the relayer's network.")
    transaction = StringField(
        help_text="An encoded transaction, 0x and hexadecimal digits: legacy or type 1 to 4, signed or unsigned."
    )


class FeeEstimateResult(serializers.Serializer[Any]):
    """The estimated fee."""

    estimated_fee = StringField(help_text="A decimal number of whole tokens.")
    conversion_rate = StringField(help_text="Tokens for one native coin, as a decimal number.")
    method = StringField(help_text="`feeEstimate`.")


class FeeEstimate(Method):
    name = "feeEstimate"
    network_type = Relayer.NetworkType.EVM
    params_class = FeeEstimateParams
    result_class = FeeEstimateResult

    def run(self, relayer: Relayer, params: Mapping[str, Any]) -> dict[str, Any]:
        fee = estimate(relayer, **params)
        return {"estimated_fee": fee.maximum_fee, "conversion_rate": fee.conversion_rate, "method": self.name}
