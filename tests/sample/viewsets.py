from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import DestroyModelMixin, ListModelMixin
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from relayer_service.api.filters import equals
from relayer_service.api.throttling import TokenRateThrottle
from relayer_service.api.viewsets import CreateMixin, ResourceViewSet
from tests.sample.models import Item
from tests.sample.serializers import CreateItemSerializer, ItemSerializer, PolishSerializer


class ItemViewSet(ListModelMixin, CreateMixin, DestroyModelMixin, ResourceViewSet):
    """List and create items."""

    queryset = Item.objects.all()
    serializer_class = ItemSerializer
    request_serializer_classes = {"create": CreateItemSerializer}
    id_taken_message = "Item with this ID already exists"
    not_found_message = "Item {} not found"
    throttle_classes = [TokenRateThrottle]
    rate_limit = "RATE_LIMIT_SAMPLE"
    tags = ["items"]
    # For tests of what an extension adds.
    action_extensions = {"destroy": "quotes", "polish": "quotes"}
    idempotent_actions = {"create": "quotes"}
    list_filters = {"name": equals("name", "Only those of this name.")}
    filter_extension = "quotes"

    @extend_schema(request=PolishSerializer, responses=PolishSerializer)
    @action(detail=True, methods=["post"])
    def polish(self, request: Request, identifier: str) -> Response:
        return Response(request.data)


class CrashView(APIView):
    """Fail as a bug in a view would, with a secret in the error's text."""

    schema = None

    def get(self, request: Request) -> Response:
        raise RuntimeError("password=hunter2")


class BrokenRenderer(BaseRenderer):
    media_type = "application/json"
    format = "json"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        raise RuntimeError("the renderer failed")


class CrashInRendererView(APIView):
    schema = None
    renderer_classes = [BrokenRenderer]

    def get(self, request: Request) -> Response:
        return Response({})
