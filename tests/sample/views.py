from typing import Any

from django.db import IntegrityError, transaction
from rest_framework.generics import ListCreateAPIView
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from relayer_service.exceptions import Conflict
from relayer_service.throttling import TokenRateThrottle
from relayer_service.views import ResourceView
from tests.sample.models import Item
from tests.sample.serializers import ItemSerializer


class ItemListView(ResourceView, ListCreateAPIView[Any]):
    """List and create items."""

    queryset = Item.objects.all()
    serializer_class = ItemSerializer
    throttle_classes = [TokenRateThrottle]
    rate_limit = "RATE_LIMIT_SAMPLE"
    tags = ["items"]
    error_messages = {"POST": {409: "Item with this ID already exists"}}

    def perform_create(self, serializer: BaseSerializer[Any]) -> None:
        try:
            with transaction.atomic():
                serializer.save()
        except IntegrityError:
            raise Conflict("Item with this ID already exists") from None


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
