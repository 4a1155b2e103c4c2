"""OpenAPI of tokens."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiResponse

from tokens.serializers import RotateTokenSerializer, RotationSerializer

ROTATE: dict[str, Any] = {
    "request": RotateTokenSerializer,
    "responses": {201: OpenApiResponse(RotationSerializer, description="The new token.")},
    "examples": [
        OpenApiExample("rotate", {"overlap_seconds": 3600}, summary="An overlap of an hour", request_only=True),
        OpenApiExample(
            "Rotation",
            {
                "token": "<new token>",
                "name": "checkout",
                "scopes": ["read", "send", "rotate"],
                "allowed_relayers": ["relayer-1"],
                "expires_at": "2027-01-01T00:00:00.000000Z",
                "replaces": {"token": "rms_4BsmmmUhnwhg", "expires_at": "2026-11-17T13:00:00.000000Z"},
            },
            response_only=True,
        ),
    ],
}
