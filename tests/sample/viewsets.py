from typing import Any

from drf_spectacular.utils import extend_schema_view
from rest_framework.decorators import action
from rest_framework.mixins import DestroyModelMixin, ListModelMixin
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from relayer_service.api.filters import equals
from relayer_service.api.operations import operation
from relayer_service.api.throttling import TokenRateThrottle
from relayer_service.api.viewsets import CreateMixin, ResourceViewSet
from tests.sample.models import Item
from tests.sample.serializers import CreateItemSerializer, ItemSerializer, PolishSerializer


# For tests of what an extension adds, some of it is one's.
@extend_schema_view(
    list=operation("list_items", "List items", in_contract=True, scope="read"),
    create=operation(
        "create_item",
        "Create an item",
        {"request": CreateItemSerializer},
        in_contract=True,
        scope="manage",
        idempotent=True,
    ),
    destroy=operation("delete_item", "Delete an item", scope="manage"),
)
class ItemViewSet(ListModelMixin, CreateMixin, DestroyModelMixin, ResourceViewSet):
    """List and create items."""

    queryset = Item.objects.all()
    serializer_class = ItemSerializer
    id_taken_message = "Item with this ID already exists"
    not_found_message = "Item {} not found"
    throttle_classes = [TokenRateThrottle]
    rate_limit = "RATE_LIMIT_SAMPLE"
    tags = ["items"]
    list_filters = {"name": equals("name", "Only those of this name.")}
    extension = "quotes"

    @operation(
        "polish_item", "Polish an item", {"request": PolishSerializer, "responses": PolishSerializer}, scope="manage"
    )
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
