from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.exceptions import ParseError
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.filters import begins
from relayer_service.api.viewsets import CreateMixin, DestroyMixin, ResourceViewSet
from signers.models import Signer
from signers.schema import CHANGE_SIGNER, CREATE_SIGNER, SIGNER_EXAMPLE
from signers.serializers import CreateSignerSerializer, SignerSerializer
from signers.type_aliases import AliasedSignerSerializer, CreateAliasedSignerSerializer, is_aliased

UNCHANGEABLE = "a signer cannot be changed: create another one, assign it to the relayers and delete this one"


@extend_schema_view(
    list=extend_schema(operation_id="list_signers", summary="List signers", examples=[SIGNER_EXAMPLE]),
    create=extend_schema(operation_id="create_signer", summary="Create a signer", **CREATE_SIGNER),
    retrieve=extend_schema(operation_id="get_signer", summary="Get a signer", examples=[SIGNER_EXAMPLE]),
    partial_update=extend_schema(
        operation_id="update_signer", summary="Update a signer (not supported, always 400)", **CHANGE_SIGNER
    ),
    destroy=extend_schema(operation_id="delete_signer", summary="Delete a signer"),
)
class SignerViewSet(ListModelMixin, CreateMixin, RetrieveModelMixin, DestroyMixin, ResourceViewSet):
    """Create, list, get and delete signers."""

    queryset = Signer.objects.all()
    lookup_url_kwarg = "signer_id"
    serializer_class = SignerSerializer
    request_serializer_classes = {"create": CreateSignerSerializer}
    action_extensions = {"retrieve": "lifecycle", "partial_update": "lifecycle", "destroy": "lifecycle"}
    action_scopes = dict.fromkeys(("list", "retrieve"), "read") | dict.fromkeys(
        ("create", "partial_update", "destroy"), "manage"
    )
    idempotent_actions = {"create": "lifecycle"}
    list_filters = {"q": begins("identifier")}
    filter_extension = "lifecycle"
    id_taken_message = "Signer with this ID already exists"
    not_found_message = "Signer with ID {} not found"
    deleted_message = "Signer deleted successfully"
    in_use_message = "Signer is in use by a relayer"
    tags = ["Signers"]

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        is_schema = getattr(self, "swagger_fake_view", False)
        if self.action == "retrieve" and settings.SIGNER_TYPE_ALIASES and not is_schema:
            return AliasedSignerSerializer
        if self.action == "create" and not is_schema and is_aliased(self.request):
            return CreateAliasedSignerSerializer
        return super().get_serializer_class()

    def partial_update(self, request: Request, **kwargs: Any) -> Response:
        """Refuse: relayers would sign with another key than the one that they were created for."""
        raise ParseError(UNCHANGEABLE, ErrorCode.NOT_SUPPORTED)
