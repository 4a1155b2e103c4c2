from typing import Any

import orjson
from django.conf import settings
from django.db import IntegrityError
from django.db.models import CharField, QuerySet, Value
from django.db.models.functions import Concat
from drf_spectacular.utils import extend_schema_view
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from relayer_service.api.exceptions import Conflict
from relayer_service.api.filters import prefix_filter
from relayer_service.api.operations import operation
from relayer_service.api.pagination import PagePagination
from relayer_service.api.renderers import JSONRenderer
from relayer_service.api.throttling import TokenRateThrottle
from relayer_service.api.viewsets import CreateMixin, DestroyMixin, PartialUpdateMixin, ResourceViewSet
from relayer_service.background.shares import CALLS
from relayers.models import NOT_FOUND
from relayers.serializers.relayers import on_network
from rpc import fee_token_schema
from rpc.dispatch import answer
from rpc.models import FeeToken
from rpc.relayer_lookup import find_cached_relayer
from rpc.schema import CALL, RpcSchema
from rpc.serializers import VERSION, FeeTokenSerializer, RpcRequestSerializer

# Shared by all requests: it has no state, and creating one costs more than using it.
REQUEST = RpcRequestSerializer()


IDENTIFIER = Concat("network", Value(":"), "symbol", output_field=CharField())


class RpcViewSet(ResourceViewSet):
    """Make a JSON-RPC call through a relayer."""

    lookup_url_kwarg = "relayer_id"
    serializer_class = RpcRequestSerializer
    renderer_classes = [JSONRenderer]
    throttle_classes = [TokenRateThrottle]
    rate_limit = "RATE_LIMIT_RPC"
    tags = ["JSON-RPC"]
    not_found_message = NOT_FOUND
    enveloped = False

    # All methods only read.
    @operation("call_method", "Call a method through a relayer", CALL, in_contract=True, scope="read")
    @action(detail=True, methods=["post"], schema=RpcSchema)
    def rpc(self, request: Request, relayer_id: str) -> Response:
        call = REQUEST.run_validation(request.data)
        relayer = find_cached_relayer(relayer_id)
        with CALLS.occupied():
            outcome = answer(relayer, call["method"], call["params"])
        return Response({"jsonrpc": VERSION, "id": response_id(call["id"]), **outcome})


@extend_schema_view(
    list=operation("list_fee_tokens", "List fee tokens", fee_token_schema.LIST, scope="read"),
    create=operation(
        "create_fee_token", "Create a fee token", fee_token_schema.CREATE, scope="manage", idempotent=True
    ),
    retrieve=operation("get_fee_token", "Get a fee token", fee_token_schema.GET, scope="read"),
    destroy=operation("delete_fee_token", "Delete a fee token", scope="manage"),
)
class FeeTokenViewSet(
    ListModelMixin, CreateMixin, RetrieveModelMixin, PartialUpdateMixin, DestroyMixin, ResourceViewSet
):
    """The tokens that fees can be quoted in, by the ID `network:symbol`."""

    queryset = FeeToken.objects.all()
    lookup_url_kwarg = "fee_token_id"
    serializer_class = FeeTokenSerializer
    pagination_class = PagePagination
    list_filters = {"q": prefix_filter("symbol"), "network": on_network("Only fee tokens on this network.")}
    extension = "lifecycle"
    id_taken_message = "A fee token with this symbol or address already exists on this network"
    not_found_message = "Fee token with ID {} not found"
    deleted_message = "Fee token deleted successfully"
    tags = ["Fee tokens"]

    def get_queryset(self) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset().annotate(identifier=IDENTIFIER).prefetch_related("sources")
        return rows

    @operation(
        "update_fee_token",
        "Update a fee token",
        fee_token_schema.UPDATE,
        scope="manage",
        errors={409: id_taken_message},
    )
    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Change the fields that are sent; omitted fields stay, and `sources` are replaced whole."""
        try:
            return super().partial_update(request, *args, **kwargs)
        except IntegrityError:
            raise Conflict(self.id_taken_message) from None


def response_id(sent: str | int | None) -> Any:
    """Return the id as a string, as the contract requires, unless RPC_ID_AS_STRING is false."""
    if sent is None or isinstance(sent, str):
        return sent
    # orjson does not write numbers beyond 64 bits.
    return str(sent) if settings.RPC_ID_AS_STRING else orjson.Fragment(str(sent))
