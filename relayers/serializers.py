from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from relayer_service.api.representation import ResourceSerializer
from relayer_service.api.serializers import BooleanField, IntegerField, StringField
from relayers.policies import EvmPolicies
from relayers.rpc_urls import MAX_WEIGHT


class DisabledReasonSerializer(ResourceSerializer):
    """Why the health check has disabled a relayer."""

    details = StringField(source="disabled_reason_details", help_text="In words.")
    type = StringField(
        source="disabled_reason_type",
        help_text="`NonceSyncFailed`: the account's nonce cannot be read from any node.",
    )


@extend_schema_serializer(component_name="RpcUrl")
class MaskedRpcUrlSerializer(serializers.Serializer[Any]):
    """A node, as answers show it: user info, path and query are masked, as providers put keys there."""

    url = StringField()
    weight = IntegerField(max_value=MAX_WEIGHT, help_text="In proportion to the others; 0 is off.")


class RelayerSerializer(ResourceSerializer):
    """An account on a network, and what it may do; what is not set is left out."""

    id = StringField(source="identifier")
    name = StringField()
    network = StringField()
    network_type = StringField(help_text="`evm`.")
    address = StringField(required=False, help_text="The account; left out while it is not known.")
    signer_id = StringField(source="signer.identifier", help_text="The signer that signs for it.")
    notification_id = StringField(
        source="notification.identifier", required=False, help_text="The notification that is told of its events."
    )
    paused = BooleanField(help_text="Set by staff.")
    system_disabled = BooleanField(help_text="Set and cleared by the health check.")
    disabled_reason = DisabledReasonSerializer(source="*", required=False)
    custom_rpc_urls = MaskedRpcUrlSerializer(source="masked_rpc_urls", many=True, required=False)
    policies = EvmPolicies(required=False)
