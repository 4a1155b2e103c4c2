"""The nodes of relayers, and networks as the API shows them."""

from typing import Any

from django.core import exceptions
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from chain.networks import Network
from relayer_service.api.serializers import BooleanField, IntegerField, ListField, StrictSerializer, StringField
from relayer_service.net import addresses, outgoing
from relayer_service.net.addresses import MASK, mask
from relayers.models import MAX_CHAIN_ID

MAX_COUNT = 2**31 - 1
MAX_WEIGHT = 100
MAX_URLS = 50


@extend_schema_serializer(component_name="RpcUrl")
class MaskedRpcUrlSerializer(serializers.Serializer[Any]):
    """A node, with user info, path and query masked, as providers put keys there."""

    url = StringField()
    weight = IntegerField(
        max_value=MAX_WEIGHT, help_text="Relative share of the calls; a node with weight 0 receives none."
    )


def validate_node_url(value: str) -> None:
    """Raise `ValidationError` for a URL that no node can have; connecting checks what the host resolves to."""
    parts = addresses.split_http_url(value)
    if parts.path == f"/{MASK}":
        raise exceptions.ValidationError("this URL is masked: send the full URL")
    address = addresses.literal_address(parts.hostname or "")
    if address and not outgoing.is_allowed_server(address):
        raise exceptions.ValidationError("this address is not allowed: it is private, reserved or a metadata service")


@extend_schema_field(OpenApiTypes.URI)
class NodeUrlField(StringField):
    default_validators = [validate_node_url]


class RpcUrlSerializer(StrictSerializer):
    """A node: its URL, and its share of the calls."""

    url = NodeUrlField(help_text="An absolute http or https URL.")
    weight = IntegerField(
        max_value=MAX_WEIGHT,
        required=False,
        default=MAX_WEIGHT,
        help_text="Relative share of the calls, from 0 to 100; a node with weight 0 receives none.",
    )

    def to_internal_value(self, data: Any) -> Any:
        """Accept a plain URL, too."""
        return super().to_internal_value({"url": data} if isinstance(data, str) else data)


class RpcUrlsField(ListField):
    child = RpcUrlSerializer()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_URLS, **kwargs)


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
