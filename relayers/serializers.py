from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from chain.networks import Network
from relayer_service.api.representation import ResourceSerializer
from relayer_service.api.serializers import BooleanField, IntegerField, ListField, StringField
from relayer_service.net.addresses import mask
from relayer_service.storage.clock import timestamp
from relayers.models import Relayer
from relayers.policies import EvmPolicies
from relayers.rpc_urls import MAX_WEIGHT

MAX_COUNT = 2**31 - 1


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


class StatusSerializer(serializers.Serializer[Any]):
    """A relayer as its last health check found it."""

    network_type = StringField()
    balance = StringField(allow_null=True, help_text="In wei, as it was last read; null as long as it never was.")
    balance_at = StringField(allow_null=True, help_text="When the balance was read.")
    nonce = StringField(allow_null=True, help_text="Of the next transaction; null while it is unknown.")
    pending_transactions_count = IntegerField(max_value=MAX_COUNT, help_text="0: the service sends none yet.")
    last_confirmed_transaction_timestamp = StringField(allow_null=True)
    paused = BooleanField()
    system_disabled = BooleanField()
    checked_at = StringField(allow_null=True, help_text="When the account was last read.")

    def to_representation(self, instance: Relayer) -> dict[str, Any]:
        return {
            "network_type": instance.network_type,
            "balance": instance.balance_text or None,
            "balance_at": instance.balance_at and timestamp(instance.balance_at),
            "nonce": None if instance.nonce is None else str(instance.nonce),
            "pending_transactions_count": 0,
            "last_confirmed_transaction_timestamp": None,
            "paused": instance.paused,
            "system_disabled": instance.system_disabled,
            "checked_at": instance.checked_at and timestamp(instance.checked_at),
        }


class BalanceSerializer(serializers.Serializer[Any]):
    """The balance of an account, read now."""

    balance = IntegerField(max_value=2**256 - 1)
    unit = StringField(help_text="`wei`.")


class NetworkSerializer(serializers.Serializer[Any]):
    """A network that relayers can be on."""

    id = StringField(help_text="`type:name`.")
    name = StringField()
    network_type = StringField()
    chain_id = IntegerField(max_value=2**63 - 1)
    symbol = StringField(help_text="Of its coin.")
    is_testnet = BooleanField()
    average_blocktime_ms = IntegerField(max_value=MAX_COUNT)
    explorer_urls = ListField(child=StringField(), required=False)
    rpc_urls = MaskedRpcUrlSerializer(many=True, required=False)

    def to_representation(self, instance: Network) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "id": f"{instance.network_type}:{instance.name}",
            "name": instance.name,
            "network_type": instance.network_type,
            "chain_id": instance.chain_id,
            "symbol": instance.symbol,
            "is_testnet": instance.testnet,
            "average_blocktime_ms": round(instance.block_seconds * 1000),
        }
        if instance.explorer:
            shown["explorer_urls"] = [instance.explorer]
        if instance.rpc_urls:
            shown["rpc_urls"] = [{"url": mask(url), "weight": MAX_WEIGHT} for url in instance.rpc_urls]
        return shown
