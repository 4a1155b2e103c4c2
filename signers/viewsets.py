from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_view
from rest_framework.exceptions import ParseError
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.filters import prefix_filter
from relayer_service.api.operations import operation
from relayer_service.api.viewsets import CreateMixin, DestroyMixin, ResourceViewSet
from signers.models import Signer
from signers.schema import CHANGE_SIGNER, CREATE_SIGNER, SIGNER
from signers.serializers import CreateSignerSerializer, SignerSerializer
from signers.type_aliases import AliasedSignerSerializer, CreateAliasedSignerSerializer, is_aliased

UNCHANGEABLE = "a signer cannot be changed: create another one, assign it to the relayers and delete this one"


@extend_schema_view(
    list=operation("list_signers", "List signers", SIGNER, in_contract=True, scope="read"),
    create=operation(
        "create_signer", "Create a signer", CREATE_SIGNER, in_contract=True, scope="manage", idempotent=True
    ),
    retrieve=operation("get_signer", "Get a signer", SIGNER, scope="read"),
    destroy=operation("delete_signer", "Delete a signer", scope="manage"),
)
class SignerViewSet(ListModelMixin, CreateMixin, RetrieveModelMixin, DestroyMixin, ResourceViewSet):
    """Create, list, get and delete signers."""

    queryset = Signer.objects.all()
    lookup_url_kwarg = "signer_id"
    serializer_class = SignerSerializer
    list_filters = {"q": prefix_filter("identifier")}
    extension = "lifecycle"
    id_taken_message = "Signer with this ID already exists"
    not_found_message = "Signer with ID {} not found"
    deleted_message = "Signer deleted successfully"
    in_use_message = "Signer is in use by a relayer"
    tags = ["Signers"]

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        is_schema = getattr(self, "swagger_fake_view", False)
        if self.action == "retrieve" and settings.SIGNER_TYPE_ALIASES and not is_schema:
            return AliasedSignerSerializer
        if self.action == "create":
            is_other = not is_schema and is_aliased(self.request)
            return CreateAliasedSignerSerializer if is_other else CreateSignerSerializer
        return super().get_serializer_class()

    @operation("update_signer", "Update a signer (not supported, always 400)", CHANGE_SIGNER, scope="manage")
    def partial_update(self, request: Request, **kwargs: Any) -> Response:
        """Refuse: relayers would sign with another key than the one that they were created for."""
        raise ParseError(UNCHANGEABLE, ErrorCode.NOT_SUPPORTED)
