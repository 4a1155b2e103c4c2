from typing import Any

import orjson
from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from relayer_service.api.renderers import JSONRenderer
from relayer_service.api.throttling import TokenRateThrottle
from relayer_service.api.viewsets import ResourceViewSet
from relayer_service.background.shares import WAITING
from relayers.models import NOT_FOUND
from rpc.dispatch import answer
from rpc.relayer_lookup import find_cached_relayer
from rpc.schema import CALL, RpcSchema
from rpc.serializers import VERSION, RpcRequestSerializer

# Shared by all requests: it has no state, and creating one costs more than using it.
REQUEST = RpcRequestSerializer()


class RpcViewSet(ResourceViewSet):
    """Make a JSON-RPC call through a relayer."""

    lookup_url_kwarg = "relayer_id"
    serializer_class = RpcRequestSerializer
    renderer_classes = [JSONRenderer]
    throttle_classes = [TokenRateThrottle]
    rate_limit = "RATE_LIMIT_RPC"
    # All methods only read.
    action_scopes = {"rpc": "read"}
    tags = ["JSON-RPC"]
    not_found_message = NOT_FOUND
    enveloped = False

    @extend_schema(operation_id="call_method", summary="Call a method through a relayer", **CALL)
    @action(detail=True, methods=["post"], schema=RpcSchema)
    def rpc(self, request: Request, relayer_id: str) -> Response:
        call = REQUEST.run_validation(request.data)
        relayer = find_cached_relayer(relayer_id)
        with WAITING.occupied():
            outcome = answer(relayer, call["method"], call["params"])
        return Response({"jsonrpc": VERSION, "id": response_id(call["id"]), **outcome})


def response_id(sent: str | int | None) -> Any:
    """Return the id as a string, as the contract requires, unless RPC_ID_AS_STRING is false."""
    if sent is None or isinstance(sent, str):
        return sent
    # orjson does not write numbers beyond 64 bits.
    return str(sent) if settings.RPC_ID_AS_STRING else orjson.Fragment(str(sent))
