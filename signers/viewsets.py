from __future__ import annotations

from http import HTTPStatus
from typing import Any

import orjson
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from relayer_service.api.listing import PageQuery, ResourceListMixin
from relayer_service.api.viewsets import ResourceCreateMixin
from signers.models import Signer
from signers.schema import CREATE_SIGNER, SignerSerializer
from signers.serializers import CreateSignerSerializer, represent

ID_TAKEN = "Signer with this ID already exists"


class SignerListView(ResourceListMixin, ResourceCreateMixin):
    """Create signers and list them."""

    page_query = PageQuery(Signer.objects.all(), "identifier", "type", "config")
    serializer_class = SignerSerializer
    create_serializer_class = CreateSignerSerializer
    id_taken_message = ID_TAKEN
    tags = ["Signers"]
    error_messages = {"POST": {HTTPStatus.CONFLICT: ID_TAKEN}}

    @staticmethod
    def represent(identifier: str, signer_type: str, config: str) -> dict[str, Any]:
        # The database gives JSON columns as text.
        return represent(identifier, signer_type, orjson.loads(config))

    @extend_schema(operation_id="list_signers", summary="List signers")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        return super().get(request, *args, **kwargs)

    @extend_schema(operation_id="create_signer", summary="Create a signer", **CREATE_SIGNER)
    def post(self, request: Request) -> Response:
        return super().post(request)
