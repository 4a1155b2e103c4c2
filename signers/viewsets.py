from __future__ import annotations

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.mixins import ListModelMixin

from relayer_service.api.viewsets import CreateMixin, ResourceViewSet
from signers.models import Signer
from signers.schema import CREATE_SIGNER, SIGNER_EXAMPLE
from signers.serializers import CreateSignerSerializer, SignerSerializer


@extend_schema_view(
    list=extend_schema(operation_id="list_signers", summary="List signers", examples=[SIGNER_EXAMPLE]),
    create=extend_schema(operation_id="create_signer", summary="Create a signer", **CREATE_SIGNER),
)
class SignerViewSet(ListModelMixin, CreateMixin, ResourceViewSet):
    """Create signers and list them."""

    queryset = Signer.objects.all()
    serializer_class = SignerSerializer
    request_serializer_classes = {"create": CreateSignerSerializer}
    id_taken_message = "Signer with this ID already exists"
    tags = ["Signers"]
