from typing import Any

from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from relayer_service.api.listing import PageQuery, ResourceListMixin
from relayer_service.api.throttling import TokenRateThrottle
from relayer_service.api.viewsets import ResourceCreateMixin, ResourceView
from tests.sample.models import Item
from tests.sample.serializers import ItemSerializer


class ItemListView(ResourceListMixin, ResourceCreateMixin):
    """List and create items."""

    page_query = PageQuery(Item.objects.all(), "identifier", "name")
    serializer_class = create_serializer_class = ItemSerializer
    id_taken_message = "Item with this ID already exists"
    throttle_classes = [TokenRateThrottle]
    rate_limit = "RATE_LIMIT_SAMPLE"
    tags = ["items"]
    error_messages = {"POST": {409: "Item with this ID already exists"}}

    @staticmethod
    def represent(identifier: str, name: str) -> dict[str, Any]:
        return {"id": identifier, "name": name}


class CrashView(ResourceView):
    """Fail as a bug in a view would, with a secret in the error's text."""

    schema = None

    def get(self, request: Request) -> Response:
        raise RuntimeError("password=hunter2")


class BrokenRenderer(BaseRenderer):
    media_type = "application/json"
    format = "json"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        raise RuntimeError("the renderer failed")


class CrashInRendererView(ResourceView):
    schema = None
    renderer_classes = [BrokenRenderer]

    def get(self, request: Request) -> Response:
        return Response({})
