"""A relayer's own RPC URLs: what is accepted, and what of them is shown."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from rest_framework import serializers

from relayer_service.api.serializers import StrictSerializer, StringField
from relayer_service.net import addresses, outgoing
from relayer_service.net.addresses import mask
from relayers.policies import IntegerField, list_messages

HEAVIEST = 100
MOST_URLS = 50


def validate_node_url(value: str) -> None:
    """Refuse what no node can be at; where a name leads is seen when it is connected to."""
    parts = addresses.split_http_url(value)
    address = addresses.literal_address(parts.hostname or "")
    if address and not outgoing.may_be_inside(address):
        raise ValidationError("this address is not allowed: it is private or reserved, or clouds serve metadata there")


class NodeUrlField(StringField):
    default_validators = [validate_node_url]


class RpcUrlSerializer(StrictSerializer):
    """A node: its address, and its share of the calls."""

    url = NodeUrlField(help_text="An absolute http or https URL.")
    weight = IntegerField(
        most=HEAVIEST,
        required=False,
        default=HEAVIEST,
        help_text="From 0 to 100, in proportion to the others; 0 is off.",
    )


class RpcUrlsField(serializers.ListField):
    child = RpcUrlSerializer()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MOST_URLS, error_messages=list_messages(MOST_URLS), **kwargs)


def masked(rpc_urls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"url": mask(entry["url"]), "weight": entry["weight"]} for entry in rpc_urls]
