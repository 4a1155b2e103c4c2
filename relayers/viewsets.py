from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from relayer_service.api.listing import PageQuery, ResourceListMixin
from relayer_service.api.throttling import TokenRateThrottle
from relayers.models import Relayer
from relayers.schema import RelayerSerializer
from relayers.serializers import represent


class RelayerListView(ResourceListMixin):
    """List relayers."""

    page_query = PageQuery(
        Relayer.objects.all(),
        "identifier",
        "name",
        "network",
        "network_type",
        "address",
        "signer__identifier",
        "notification__identifier",
        "paused",
        "system_disabled",
        "disabled_reason_type",
        "disabled_reason_details",
        "masked_rpc_urls",
        "policies",
    )
    represent = staticmethod(represent)
    serializer_class = RelayerSerializer
    throttle_classes = [TokenRateThrottle]
    rate_limit = "RATE_LIMIT_LIST_RELAYERS"
    tags = ["Relayers"]

    @extend_schema(operation_id="list_relayers", summary="List relayers")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        return super().get(request, *args, **kwargs)
