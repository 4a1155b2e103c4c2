from http import HTTPStatus
from typing import Any, NamedTuple

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from chain.messages import signature_data
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.throttling import WaitingRateThrottle
from relayer_service.api.viewsets import ResourceViewSet
from relayers.models import NOT_FOUND, Relayer, find_relayer
from relayers.signatures import schema, signing
from relayers.signatures.serializers import SignatureSerializer, SignMessageSerializer, SignTypedDataSerializer
from relayers.signatures.signing import Kind, SigningRequest

ACTIONS = ("sign", "sign_typed_data", "sign_transaction")
UNSUPPORTED = "signing a transaction is not supported for EVM relayers: send it, so that its nonce is tracked"


class RelayerInPath(NamedTuple):
    identifier: str


class SigningViewSet(ResourceViewSet):
    """Sign with the key of a relayer."""

    queryset = Relayer.objects.all()
    lookup_url_kwarg = "relayer_id"
    serializer_class = SignatureSerializer
    request_serializer_classes = {"sign": SignMessageSerializer, "sign_typed_data": SignTypedDataSerializer}
    action_extensions = dict.fromkeys(ACTIONS, "signing")
    action_scopes = dict.fromkeys(ACTIONS, "sign")
    action_errors = {
        action: {
            HTTPStatus.FORBIDDEN: signing.PAUSED,
            HTTPStatus.CONFLICT: signing.NO_ADDRESS,
            HTTPStatus.SERVICE_UNAVAILABLE: signing.CANNOT_SIGN,
        }
        for action in request_serializer_classes
    }
    throttle_classes = [WaitingRateThrottle]
    not_found_message = NOT_FOUND

    @extend_schema(operation_id="sign", summary="Sign a message", **schema.MESSAGE)
    @action(detail=True, methods=["post"])
    def sign(self, request: Request, relayer_id: str) -> Response:
        """Sign a message (EIP-191), if the relayer's `allow_signing` has `messages`."""
        return self._sign(relayer_id, Kind.MESSAGES)

    @extend_schema(operation_id="sign_typed_data", summary="Sign typed data", **schema.DATA)
    @action(detail=True, methods=["post"], url_path="sign-typed-data")
    def sign_typed_data(self, request: Request, relayer_id: str) -> Response:
        """Sign typed data (EIP-712), if the relayer's `allow_signing` has `typed_data`."""
        return self._sign(relayer_id, Kind.TYPED_DATA)

    @extend_schema(operation_id="sign_transaction", summary="Refuse to sign a transaction", **schema.TRANSACTION)
    @action(detail=True, methods=["post"], url_path="sign-transaction")
    def sign_transaction(self, request: Request, relayer_id: str) -> Response:
        """Refuse: a transaction that the service does not track would use a nonce that it needs."""
        self.check_object_permissions(request, RelayerInPath(relayer_id))
        find_relayer(relayer_id)
        raise ParseError(UNSUPPORTED, ErrorCode.NOT_SUPPORTED)

    def _sign(self, relayer_id: str, kind: Kind) -> Response:
        # Before the relayer is read: the answer does not disclose whether it exists.
        self.check_object_permissions(self.request, RelayerInPath(relayer_id))
        serializer = self.get_serializer(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        token: Any = self.request.auth
        limits = {"spending_id": token.read_spending_id(), "allowed_relayers": token.allowed_relayers}
        made = signing.sign(SigningRequest(relayer_id, kind, **serializer.validated_data, **limits))
        return Response(signature_data(made.r, made.s, made.recovery_id))
