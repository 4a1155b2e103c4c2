"""A relayer's own RPC URLs: which are accepted, and how they are shown."""

from typing import Any

from django.core.exceptions import ValidationError
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field

from relayer_service.api.serializers import IntegerField, ListField, StrictSerializer, StringField
from relayer_service.net import addresses, outgoing
from relayer_service.net.addresses import MASK, mask

MAX_WEIGHT = 100
MAX_URLS = 50


def validate_node_url(value: str) -> None:
    """Refuse URLs that no node can have; what a host name resolves to is checked when connecting."""
    parts = addresses.split_http_url(value)
    if parts.path == f"/{MASK}":
        raise ValidationError("this is a URL as answers show it: the whole URL is required")
    address = addresses.literal_address(parts.hostname or "")
    if address and not outgoing.is_allowed_server(address):
        raise ValidationError("this address is not allowed: it is private or reserved, or clouds serve metadata there")


@extend_schema_field(OpenApiTypes.URI)
class NodeUrlField(StringField):
    default_validators = [validate_node_url]


class RpcUrlSerializer(StrictSerializer):
    """A node: its address, and its share of the calls."""

    url = NodeUrlField(help_text="An absolute http or https URL.")
    weight = IntegerField(
        max_value=MAX_WEIGHT,
        required=False,
        default=MAX_WEIGHT,
        help_text="From 0 to 100, in proportion to the others; 0 is off.",
    )


class RpcUrlsField(ListField):
    child = RpcUrlSerializer()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_URLS, **kwargs)


def masked(rpc_urls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"url": mask(entry["url"]), "weight": entry["weight"]} for entry in rpc_urls]
