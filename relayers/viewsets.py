from __future__ import annotations

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.mixins import ListModelMixin

from relayer_service.api.throttling import TokenRateThrottle
from relayer_service.api.viewsets import ResourceViewSet
from relayers.models import Relayer
from relayers.schema import RELAYER_EXAMPLE
from relayers.serializers import RelayerSerializer


@extend_schema_view(
    list=extend_schema(operation_id="list_relayers", summary="List relayers", examples=[RELAYER_EXAMPLE])
)
class RelayerViewSet(ListModelMixin, ResourceViewSet):
    """List relayers."""

    queryset = Relayer.objects.all()
    serializer_class = RelayerSerializer
    throttle_classes = [TokenRateThrottle]
    rate_limit = "RATE_LIMIT_LIST_RELAYERS"
    tags = ["Relayers"]
