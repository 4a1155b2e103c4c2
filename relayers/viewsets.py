import logging
from typing import Any

import orjson
from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema_view
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from chain.errors import NodesUnreachable
from chain.networks import networks, resolve_alias
from chain.nodes import failover
from chain.nodes.answers import quantity
from chain.nodes.attempts import Call
from relayer_service.api import idempotency, jobs
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import Conflict, MethodNotAllowed, NotFound, ServiceUnavailable
from relayer_service.api.filters import apply_filters
from relayer_service.api.operations import operation
from relayer_service.api.pagination import PagePagination
from relayer_service.api.throttling import TokenRateThrottle, WaitingRateThrottle
from relayer_service.api.viewsets import CreateMixin, DestroyMixin, PartialUpdateMixin, ResourceViewSet
from relayer_service.background.shares import waiting_for_others
from relayer_service.storage.encryption import DecryptionError
from relayers import guards, schema
from relayers.models import NOT_FOUND, Relayer
from relayers.reach import reached
from relayers.serializers.networks import NetworkSerializer
from relayers.serializers.relayers import LIST_FILTERS, ManagedRelayerSerializer, RelayerSerializer, StatusSerializer
from relayers.signatures.signing import NO_ADDRESS
from signers.models import Signer

logger = logging.getLogger(__name__)

UNCHANGEABLE_NETWORK = "Networks cannot be changed over REST: change NETWORKS_FILE, or custom_rpc_urls of a relayer"
JOB_FIELDS = {"filter", "reason"}
START_JOB: Any = {"scope": "manage", "within_relayers": JOB_FIELDS, "within_rules": JOB_FIELDS, "idempotent": True}
UNREADABLE_URLS = "The URLs of the relayer's nodes cannot be decrypted."


@extend_schema_view(
    list=operation(
        "list_relayers", "List relayers", schema.GET_RELAYER, in_contract=True, scope="read", limited_scope="send"
    ),
    create=operation("create_relayer", "Create a relayer", schema.CREATE_RELAYER, scope="manage", idempotent=True),
    retrieve=operation("get_relayer", "Get a relayer", schema.GET_RELAYER, scope="read", limited_scope="send"),
    partial_update=operation(
        "update_relayer",
        "Update a relayer",
        schema.UPDATE_RELAYER,
        scope="manage",
        within_relayers={"name", "paused", "policies", "private_fallback_blocks"},
        within_rules={"name", "paused", "notification_id"},
    ),
    destroy=operation("delete_relayer", "Delete a relayer", scope="manage"),
)
class RelayerViewSet(
    ListModelMixin, CreateMixin, RetrieveModelMixin, PartialUpdateMixin, DestroyMixin, ResourceViewSet
):
    """List relayers."""

    queryset = Relayer.objects.all()
    lookup_url_kwarg = "relayer_id"
    serializer_class = RelayerSerializer
    extension = "lifecycle"
    list_filters = LIST_FILTERS
    throttle_classes = [TokenRateThrottle]
    rate_limit = "RATE_LIMIT_LIST_RELAYERS"
    id_taken_message = "Relayer with this ID already exists"
    not_found_message = NOT_FOUND
    deleted_message = "Relayer deleted successfully"
    in_use_message = "Relayer is in use"
    tags = ["Relayers"]

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        # The contract has the list only, and shows no other fields there.
        return ManagedRelayerSerializer if self.action == "retrieve" else super().get_serializer_class()

    def get_throttles(self) -> list[Any]:
        if self.action in {"create", "partial_update", "balance"}:
            return [WaitingRateThrottle()]
        return [] if self.action in {"retrieve", "status"} else super().get_throttles()

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        if only := getattr(self.request.auth, "only_relayers", None):
            rows = reached(only, rows)
        if self.action == "list":
            return rows
        return rows.select_related("signer", "notification", "funding_relayer", "health")

    def get_object(self) -> Any:
        # Read for this action alone: the body of others is ignored, whatever it is.
        body: Any = self.request.data if self.action == "partial_update" else {}
        if "signer_id" in body:
            # Before the relayer, as replacing its key does.
            signers = Signer.objects.select_for_update(no_key=True).filter(identifier=body["signer_id"])
            list(signers.values_list("pk"))
        return super().get_object()

    def perform_destroy(self, instance: Relayer) -> list[str]:
        try:
            guards.release([instance.pk])
        except guards.DeletionRefused as refusal:
            raise Conflict(str(refusal), ErrorCode.IN_USE) from None
        return super().perform_destroy(instance)

    @operation("pause_relayers", "Pause many relayers", schema.PAUSE, **START_JOB)
    @action(detail=False, methods=["post"])
    def pause(self, request: Request) -> HttpResponse:
        """Start a job that pauses the relayers of a filter; those that are paused are skipped."""
        return self._start_job("pause_relayers")

    @operation("resume_relayers", "Resume many relayers", schema.RESUME, **START_JOB)
    @action(detail=False, methods=["post"])
    def resume(self, request: Request) -> HttpResponse:
        """Start a job that resumes the relayers of a filter; those that are not paused are skipped."""
        return self._start_job("resume_relayers")

    def _start_job(self, kind: str) -> HttpResponse:
        def start(serializer: Any) -> dict[str, Any]:
            values = serializer.validated_data
            rows = apply_filters(Relayer.objects.all(), LIST_FILTERS, values["filter"])
            rows = reached(self.request.auth.allowed_relayers, rows)  # type: ignore[union-attr]  # a token
            return jobs.start(self.request, kind, rows, values.get("reason", ""))

        return idempotency.run_idempotently(self, self._valid, start)

    @operation("get_relayer_status", "Get a relayer's status", schema.STATUS, scope="read", limited_scope="send")
    @action(detail=True)
    def status(self, request: Request, **kwargs: Any) -> Response:
        """Return the result of the last health check, without a call to a node."""
        return Response(StatusSerializer(self.get_object()).data)

    @operation(
        "get_relayer_balance",
        "Get a relayer's balance",
        schema.BALANCE,
        scope="read",
        limited_scope="send",
        errors={503: "No node answered: connection failed."},
    )
    @action(detail=True)
    def balance(self, request: Request, **kwargs: Any) -> Response:
        """Return the balance of the account, read from a node."""
        # The number may be too large for orjson.
        return Response({"balance": orjson.Fragment(str(read_balance(self.get_object()))), "unit": "wei"})


def read_balance(relayer: Relayer) -> int:
    if not relayer.address:
        raise ServiceUnavailable(NO_ADDRESS, ErrorCode.ACCOUNT_UNKNOWN)
    calls, cause = [Call("eth_getBalance", [relayer.address, "latest"])], "No node returned a balance."
    try:
        urls = relayer.node_urls()
        with waiting_for_others():
            for found in failover.answers(urls, calls, relayer.expected_chain_id):
                balance = quantity(found[0])
                if balance is not None:
                    return balance
    except (NodesUnreachable, DecryptionError) as error:
        logger.warning("The balance of the relayer %s cannot be read: %s", relayer, error)
        cause = str(error) if isinstance(error, NodesUnreachable) else UNREADABLE_URLS
    raise ServiceUnavailable(cause, ErrorCode.NODES_UNAVAILABLE)


@extend_schema_view(list=operation("list_networks", "List networks", schema.LIST_NETWORKS, scope="read"))
class NetworkViewSet(ListModelMixin, ResourceViewSet):
    """The networks that the service defines, by the ID `type:name`."""

    lookup_url_kwarg = "network_id"
    serializer_class = NetworkSerializer
    extension = "lifecycle"
    pagination_class = PagePagination
    not_found_message = "Network with ID {} not found"
    query_parameters = {"q"}
    tags = ["Networks"]

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        raise MethodNotAllowed(request.method, UNCHANGEABLE_NETWORK)

    def get_queryset(self) -> Any:
        beginning = self.request.query_params.get("q", "").lower()
        return [network for network in networks().values() if network.name.startswith(beginning)]

    @operation("get_network", "Get a network", schema.GET_NETWORK, scope="read")
    def retrieve(self, request: Request, network_id: str) -> Response:
        network_type, _, name = network_id.removesuffix("/").partition(":")
        network = networks().get(resolve_alias(name))
        if network is None or network.network_type != network_type:
            raise NotFound(self.not_found_message.format(network_id))
        return Response(NetworkSerializer(network).data)
