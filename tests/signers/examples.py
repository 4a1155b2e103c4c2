"""A whole config of each signer type, and what answers may show of it."""

from typing import Any

CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {"key": "plain-key-SECRET"},
    "provider_a_kms": {"key_id": "a-key", "region": "eu-central-1"},
    "provider_b_kms": {
        "key": {"location": "global-SECRET", "key_ring_id": "ring-SECRET"},
        "service_account": {"private_key": "account-SECRET"},
    },
    "provider_c": {
        "address": "https://vault.example.com",
        "key_name": "c-key",
        "mount_point": "kv",
        "namespace": "team",
        "role_id": "c-role-SECRET",
        "secret_id": "c-secret-SECRET",
    },
    "provider_c_transit": {
        "address": "https://vault.example.com",
        "key_name": "t-key",
        "mount_point": "transit",
        "namespace": "team",
        "pubkey": "t-pubkey",
        "role_id": "t-role-SECRET",
        "secret_id": "t-secret-SECRET",
    },
    "provider_d": {
        "api_private_key": "d-private-SECRET",
        "api_public_key": "d-public",
        "organization_id": "d-organization",
        "private_key_id": "d-key-id",
        "public_key": "d-public-key",
    },
    "provider_e": {
        "account_address": "0x0000000000000000000000000000000000000001",
        "api_key_id": "e-key-id",
        "api_key_secret": "e-key-SECRET",
        "wallet_secret": "e-wallet-SECRET",
    },
}
SHOWN: dict[str, dict[str, Any]] = {
    kind: {name: value for name, value in config.items() if "SECRET" not in str(value)}
    for kind, config in CONFIGS.items()
}


def secrets() -> list[str]:
    """Every secret of the configs, as text to search for."""

    def strings(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [text for item in value.values() for text in strings(item)]
        return [value]

    return [text for config in CONFIGS.values() for text in strings(config) if "SECRET" in text]
