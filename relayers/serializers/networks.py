"""Networks as the API shows them."""

from typing import Any

from rest_framework import serializers

from chain.networks import Network
from relayer_service.api.serializers import BooleanField, IntegerField, ListField, StringField
from relayer_service.net.addresses import mask
from relayers.models import MAX_CHAIN_ID
from relayers.serializers.relayers import MAX_COUNT
from relayers.serializers.rpc_urls import MAX_WEIGHT, MaskedRpcUrlSerializer


class NetworkSerializer(serializers.Serializer[Any]):
    """A network that relayers can use."""

    id = StringField(help_text="`type:name`.")
    name = StringField()
    network_type = StringField()
    chain_id = IntegerField(max_value=MAX_CHAIN_ID)
    symbol = StringField(help_text="The symbol of its native coin.")
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
