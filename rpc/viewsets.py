from __future__ import annotations

from typing import Any

import orjson
from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from relayer_service.api.exceptions import NotFound
from relayer_service.api.renderers import JSONRenderer
from relayer_service.api.throttling import TokenRateThrottle
from relayer_service.api.viewsets import ResourceViewSet
from relayer_service.storage.lookups import Lookup, from_columns, in_order
from relayer_service.storage.resources import LONGEST_IDENTIFIER
from relayers.models import Relayer
from rpc.dispatch import answer
from rpc.kept import Kept
from rpc.schema import CALL
from rpc.serializers import VERSION, RpcRequestSerializer

NOT_FOUND = "Relayer with ID {} not found"
# One for all requests: it keeps nothing of them, and to make one costs more than to use it.
REQUEST = RpcRequestSerializer()
# What methods need to know of a relayer.
COLUMNS = in_order(
    Relayer, "sequence", "identifier", "network", "network_type", "address", "policies", "custom_rpc_urls"
)
RELAYER = Lookup(Relayer.objects.order_by(), ["identifier"], COLUMNS)
kept: Kept[Relayer] = Kept()


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

    @extend_schema(operation_id="call_method", summary="Call a method through a relayer", **CALL)
    @action(detail=True, methods=["post"])
    def rpc(self, request: Request, relayer_id: str) -> Response:
        call = REQUEST.run_validation(request.data)
        relayer = find_relayer(relayer_id)
        outcome = answer(relayer, call["method"], call["params"])
        return Response({"jsonrpc": VERSION, "id": answered_id(call["id"]), **outcome})


def find_relayer(identifier: str) -> Relayer:
    if len(identifier) > LONGEST_IDENTIFIER:
        raise NotFound(NOT_FOUND.format(identifier))
    return kept.get(identifier, lambda: _read(identifier), settings.RPC_CACHE_SECONDS)


def _read(identifier: str) -> Relayer:
    # PostgreSQL takes no NUL, so that no id has one.
    rows = [] if "\0" in identifier else RELAYER.rows(identifier=identifier)
    if not rows:
        raise NotFound(NOT_FOUND.format(identifier))
    return from_columns(Relayer, COLUMNS, rows[0])


def answered_id(sent: str | int | None) -> Any:
    """Return the id as a string, as the contract says, unless clients want back what they sent."""
    if sent is None or isinstance(sent, str):
        return sent
    # A number may be larger than orjson writes.
    return str(sent) if settings.RPC_ID_AS_STRING else orjson.Fragment(str(sent))
