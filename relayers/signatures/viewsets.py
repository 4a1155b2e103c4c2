from typing import Any

from rest_framework.decorators import action
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from chain.messages import signature_data
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.operations import operation
from relayer_service.api.permissions import RelayerInPath
from relayer_service.api.throttling import WaitingRateThrottle
from relayer_service.api.viewsets import ResourceViewSet
from relayers.models import NOT_FOUND, Relayer, find_relayer
from relayers.signatures import schema, signing
from relayers.signatures.serializers import SignatureSerializer
from relayers.signatures.signing import Kind, SigningRequest

ERRORS = {403: signing.PAUSED, 409: signing.NO_ADDRESS, 503: signing.CANNOT_SIGN}
UNSUPPORTED = "signing a transaction is not supported for EVM relayers: send it, so that its nonce is tracked"


class SigningViewSet(ResourceViewSet):
    """Sign with the key of a relayer."""

    queryset = Relayer.objects.all()
    lookup_url_kwarg = "relayer_id"
    serializer_class = SignatureSerializer
    extension = "signing"
    tags = ["Signing"]
    throttle_classes = [WaitingRateThrottle]
    not_found_message = NOT_FOUND

    @operation("sign", "Sign a message", schema.MESSAGE, scope="sign", errors=ERRORS)
    @action(detail=True, methods=["post"])
    def sign(self, request: Request, relayer_id: str) -> Response:
        """Sign a message (EIP-191), if the relayer's `allow_signing` has `messages`."""
        return self._sign(relayer_id, Kind.MESSAGES)

    @operation("sign_typed_data", "Sign typed data", schema.DATA, scope="sign", errors=ERRORS)
    @action(detail=True, methods=["post"], url_path="sign-typed-data")
    def sign_typed_data(self, request: Request, relayer_id: str) -> Response:
        """Sign typed data (EIP-712), if the relayer's `allow_signing` has `typed_data`."""
        return self._sign(relayer_id, Kind.TYPED_DATA)

    @operation("sign_transaction", "Refuse to sign a transaction", schema.TRANSACTION, scope="sign")
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
