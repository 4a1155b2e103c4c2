from datetime import timedelta
from http import HTTPStatus

from rest_framework.decorators import action
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request
from rest_framework.response import Response

from relayer_service.api.exceptions import Conflict
from relayer_service.api.operations import operation
from relayer_service.api.throttling import TokenRateThrottle
from relayer_service.api.viewsets import ResourceViewSet
from tokens import schema
from tokens.models import AccessToken
from tokens.serializers import RotationSerializer
from tokens.writes import AlreadyRotated, NotRotatable, rotate

ALREADY_ROTATED = "Token was already rotated"


class TokenViewSet(ResourceViewSet):
    """The token of the request: no token can change another one."""

    serializer_class = RotationSerializer
    extension = "lifecycle"
    throttle_classes = [TokenRateThrottle]
    rate_limit = "RATE_LIMIT_RPC"
    tags = ["Tokens"]

    @operation(
        "rotate_token",
        "Rotate the token of the request",
        schema.ROTATE,
        optional_body=True,
        scope="rotate",
        errors={409: ALREADY_ROTATED},
    )
    @action(detail=False, methods=["post"])
    def rotate(self, request: Request) -> Response:
        """Issue a successor with the same rights, limits and expiry, once; the old token expires after the overlap."""
        # Not idempotent by a key: the response, which contains a secret, would be stored.
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        token: AccessToken = request.auth  # type: ignore[assignment]  # set by `BearerAuthentication`
        try:
            rotation = rotate(token.pk, timedelta(seconds=serializer.validated_data["overlap_seconds"]))
        except AlreadyRotated:
            raise Conflict(ALREADY_ROTATED) from None
        except NotRotatable:
            # Disabled, expired or deleted since it was verified.
            raise AuthenticationFailed from None
        return Response(RotationSerializer(rotation).data, HTTPStatus.CREATED)
