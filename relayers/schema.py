"""What the OpenAPI document shows of relayers beside their serializer."""

from drf_spectacular.utils import OpenApiExample

RELAYER_EXAMPLE = OpenApiExample(
    "Relayer",
    {
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
    },
    response_only=True,
)
