"""OpenAPI of fee tokens: examples."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiResponse

from rpc.serializers import CreateFeeTokenSerializer, FeeTokenSerializer, UpdateFeeTokenSerializer

TOKEN: dict[str, Any] = {
    "network": "sepolia",
    "symbol": "USDC",
    "address": "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238",
    "enabled": True,
    "margin_bps": 50,
    "max_spread_bps": 200,
    "sources": [{"kind": "fixed", "rate": "3000.5", "max_age_seconds": 86400}],
}
EXAMPLE = OpenApiExample(
    "FeeToken",
    {"id": "sepolia:USDC", **TOKEN, "decimals": 6, "rate": "3000.5", "rated_at": "2026-01-01T00:00:00.000000Z"},
    response_only=True,
)
LIST: dict[str, Any] = {
    "description": "Return the fee tokens by network and symbol. Requires the scope `read`.",
    "responses": {200: FeeTokenSerializer(many=True)},
    "examples": [EXAMPLE],
}
GET: dict[str, Any] = {"examples": [EXAMPLE]}
CREATE: dict[str, Any] = {
    "request": CreateFeeTokenSerializer,
    "responses": {201: OpenApiResponse(FeeTokenSerializer, description="The fee token was created.")},
    "examples": [OpenApiExample("create", TOKEN, summary="With a fixed rate", request_only=True), EXAMPLE],
}
UPDATE: dict[str, Any] = {
    "request": UpdateFeeTokenSerializer,
    "responses": {200: OpenApiResponse(FeeTokenSerializer, description="The updated fee token.")},
    "examples": [
        OpenApiExample("confirm", {"confirm_rates": True}, summary="Confirm its fixed rates", request_only=True),
        OpenApiExample(
            "rate",
            {"sources": [{"kind": "fixed", "rate": "3010", "max_age_seconds": 86400}]},
            summary="Set its rate",
            request_only=True,
        ),
        EXAMPLE,
    ],
}
