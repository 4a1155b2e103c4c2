"""Parameters, responses and examples of the OpenAPI document for relayers and networks."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse

from relayer_service.api import jobs
from relayers.serializers import relayers as serializers

RELAYER: dict[str, Any] = {
    "id": "relayer-1",
    "name": "Relayer 1",
    "network": "sepolia",
    "network_type": "evm",
    "address": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "signer_id": "signer-1",
    "notification_id": "notification-1",
    "paused": False,
    "system_disabled": True,
    "disabled_reason": {
        "details": "The nonce could not be read from any node: no node answered.",
        "type": "NonceSyncFailed",
    },
    "custom_rpc_urls": [{"url": "https://rpc.example.com/***", "weight": 100}],
    "policies": {
        "eip1559_pricing": True,
        "gas_limit_estimation": True,
        "gas_price_cap": 100_000_000_000,
        "min_balance": 500_000_000_000_000_000,
        "private_transactions": False,
        "whitelist_receivers": ["0x70997970C51812dc3A010C7d01b50e0d17dc79C8"],
    },
}
RELAYER_EXAMPLE = OpenApiExample("Relayer", RELAYER, response_only=True)
NEW_RELAYER = {
    name: RELAYER[name] for name in ("id", "name", "network", "network_type", "signer_id", "notification_id")
}

GET_RELAYER = {"examples": [RELAYER_EXAMPLE]}
CREATE_RELAYER: dict[str, Any] = {
    "request": serializers.CreateRelayerSerializer,
    "responses": {
        201: OpenApiResponse(
            serializers.ManagedRelayerSerializer,
            description="The relayer was created; the log entries list the checks that were skipped.",
        )
    },
    "examples": [
        OpenApiExample(
            "create",
            {**NEW_RELAYER, "paused": False, "policies": {"min_balance": 500_000_000_000_000_000}},
            request_only=True,
        ),
        RELAYER_EXAMPLE,
    ],
}
TOP_UP = {
    "funding_relayer_id": "treasury",
    "minimum": "100000000000000000",
    "target": "500000000000000000",
    "daily_limit": "2000000000000000000",
}
CHANGES = {
    "name": ("Change its name", {"name": "Payouts"}),
    "pause": ("Pause it", {"paused": True}),
    "signer": ("Change its signer", {"signer_id": "signer-1"}),
    "policies": (
        "Set one policy and remove another",
        {"policies": {"gas_price_cap": 100_000_000_000, "min_balance": None}},
    ),
    "top_up": ("Have another relayer top it up", {"top_up": TOP_UP}),
}
UPDATE_RELAYER: dict[str, Any] = {
    "request": serializers.UpdateRelayerSerializer,
    "responses": {200: OpenApiResponse(serializers.ManagedRelayerSerializer, description="The updated relayer.")},
    "examples": [
        *(
            OpenApiExample(name, change, summary=summary, request_only=True)
            for name, (summary, change) in CHANGES.items()
        ),
        RELAYER_EXAMPLE,
    ],
}
FILTER = {"network": "sepolia", "q": "staging-"}
PAUSE = jobs.started(serializers.ChangeRelayersSerializer, {"filter": FILTER, "reason": "Maintenance of the nodes"})
RESUME = jobs.started(serializers.ChangeRelayersSerializer, {"filter": FILTER})
STATUS: dict[str, Any] = {
    "responses": {200: serializers.StatusSerializer},
    "examples": [
        OpenApiExample(
            "Status",
            {
                "network_type": "evm",
                "balance": "1500000000000000000",
                "balance_at": "2026-01-01T00:00:00.000000Z",
                "nonce": "7",
                "pending_transactions_count": 0,
                "last_confirmed_transaction_timestamp": None,
                "paused": False,
                "system_disabled": False,
                "checked_at": "2026-01-01T00:00:00.000000Z",
            },
            response_only=True,
        )
    ],
}
BALANCE: dict[str, Any] = {
    "responses": {200: serializers.BalanceSerializer},
    "examples": [OpenApiExample("Balance", {"balance": 1_500_000_000_000_000_000, "unit": "wei"}, response_only=True)],
}
NETWORK_EXAMPLE = OpenApiExample(
    "Network",
    {
        "id": "evm:sepolia",
        "name": "sepolia",
        "network_type": "evm",
        "chain_id": 11155111,
        "symbol": "ETH",
        "is_testnet": True,
        "average_blocktime_ms": 12000,
    },
    response_only=True,
)
GET_NETWORK = {"examples": [NETWORK_EXAMPLE]}
LIST_NETWORKS: dict[str, Any] = {
    "parameters": [OpenApiParameter("q", str, description="Only networks whose name starts with this.")],
    "examples": [NETWORK_EXAMPLE],
}
