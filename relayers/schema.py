"""The relayers' part of the OpenAPI document."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from relayer_service.api.serializers import StringField
from relayers.policies import BooleanField, EvmPolicies, IntegerField
from relayers.rpc_urls import HEAVIEST


class LiteralBoolean(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "relayers.policies.BooleanField"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        return {"type": "boolean"}


class ExactInteger(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "relayers.policies.IntegerField"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.target.least, "maximum": self.target.most}


class EvmAddress(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "relayers.policies.EvmAddressField"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        return {"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"}


@extend_schema_serializer(component_name="DisabledReason")
class DisabledReasonSerializer(serializers.Serializer[Any]):
    """Why the health check has disabled a relayer."""

    details = StringField(help_text="In words.")
    type = StringField(help_text="`NonceSyncFailed`: the account's nonce cannot be read from any node.")


@extend_schema_serializer(component_name="RpcUrl")
class RpcUrlSerializer(serializers.Serializer[Any]):
    """A node, as answers show it: user info, path and query are masked, as providers put keys there."""

    url = StringField()
    weight = IntegerField(most=HEAVIEST, help_text="In proportion to the others; 0 is off.")


@extend_schema_serializer(
    component_name="Relayer",
    examples=[
        OpenApiExample(
            "Relayer",
            {
                "id": "relayer-1",
                "name": "Relayer 1",
                "network": "sepolia",
                "network_type": "evm",
                "address": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
                "signer_id": "signer-1",
                "notification_id": "notification-1",
                "paused": False,
                "system_disabled": True,
                "disabled_reason": {
                    "details": "The nonce could not be read from any node: no node answered.",
                    "type": "NonceSyncFailed",
                },
                "custom_rpc_urls": [{"url": "https://rpc.example.com/***", "weight": 100}],
                "policies": {
                    "eip1559_pricing": True,
                    "gas_limit_estimation": True,
                    "gas_price_cap": 100_000_000_000,
                    "min_balance": 500_000_000_000_000_000,
                    "private_transactions": False,
                    "whitelist_receivers": ["0x70997970C51812dc3A010C7d01b50e0d17dc79C8"],
                },
            },
            response_only=True,
        )
    ],
)
class RelayerSerializer(serializers.Serializer[Any]):
    """An account on a network, and what it may do; what is not set is left out."""

    id = StringField()
    name = StringField()
    network = StringField()
    network_type = StringField(help_text="`evm`.")
    address = StringField(required=False, help_text="The account; left out while it is not known.")
    signer_id = StringField(help_text="The signer that signs for it.")
    notification_id = StringField(required=False, help_text="The notification that is told of its events.")
    paused = BooleanField(help_text="Set by staff.")
    system_disabled = BooleanField(help_text="Set and cleared by the health check.")
    disabled_reason = DisabledReasonSerializer(required=False)
    custom_rpc_urls = RpcUrlSerializer(many=True, required=False)
    policies = EvmPolicies(required=False)
