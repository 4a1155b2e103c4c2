"""What the OpenAPI document shows of signers beside their serializers: a request is one of seven shapes, by `type`."""

from typing import Any

from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiResponse,
    PolymorphicProxySerializer,
    extend_schema_field,
)
from rest_framework import serializers

from signers.config_shapes import CONFIGS, ConfigSerializer
from signers.serializers import CreateSignerSerializer, SignerSerializer
from signers.types import SignerType

# Made-up values: what has the form of a secret is none.
EXAMPLES: dict[SignerType, dict[str, Any]] = {
    SignerType.PLAIN: {"key": "<32-byte key in hex>"},
    SignerType.PROVIDER_A_KMS: {"key_id": "1234abcd-12ab-34cd-56ef-1234567890ab", "region": "eu-central-1"},
    SignerType.PROVIDER_B_KMS: {
        "key": {"location": "europe-west3", "key_ring_id": "relayers", "key_id": "relayer-1", "key_version": 1},
        "service_account": {"project_id": "example", "client_email": "relayer@example.iam.gserviceaccount.com"},
    },
    SignerType.PROVIDER_C: {
        "address": "https://vault.example.com:8200",
        "key_name": "relayer-1",
        "mount_point": "secret",
        "role_id": "<AppRole role id>",
        "secret_id": "<AppRole secret id>",
    },
    SignerType.PROVIDER_C_TRANSIT: {
        "address": "https://vault.example.com:8200",
        "key_name": "relayer-1",
        "pubkey": "<Ed25519 public key in base64>",
        "role_id": "<AppRole role id>",
        "secret_id": "<AppRole secret id>",
    },
    SignerType.PROVIDER_D: {
        "api_private_key": "<API private key>",
        "api_public_key": "<API public key>",
        "organization_id": "<organization id>",
        "private_key_id": "<private key id>",
        "public_key": "<public key in hex>",
    },
    SignerType.PROVIDER_E: {
        "account_address": "0x0000000000000000000000000000000000000001",
        "api_key_id": "<API key id>",
        "api_key_secret": "<API key secret>",
        "wallet_secret": "<wallet secret>",
    },
}


SIGNER_EXAMPLE = OpenApiExample(
    "Signer",
    {
        "id": "signer-1",
        "type": "provider_c",
        "config": {"address": "https://vault.example.com:8200", "key_name": "relayer-1"},
    },
    response_only=True,
)


def request_shape(signer_type: SignerType, config: type[ConfigSerializer]) -> serializers.Serializer[Any]:
    """Return the documented form of a request of one type."""

    @extend_schema_field({"allOf": [{"$ref": "#/components/schemas/SignerTypeRequest"}], "const": signer_type.value})
    class TypeField(serializers.CharField):
        pass

    name = config.__name__.removesuffix("Config")
    fields = {"type": TypeField(), "config": config()}
    shape: serializers.Serializer[Any] = type(f"{name}Signer", (CreateSignerSerializer,), fields)()
    return shape


CREATE_SIGNER: dict[str, Any] = {
    "request": PolymorphicProxySerializer(
        component_name="CreateSigner",
        serializers={signer_type.value: request_shape(signer_type, config) for signer_type, config in CONFIGS.items()},
        resource_type_field_name="type",
    ),
    "responses": {201: OpenApiResponse(SignerSerializer, description="The signer was created.")},
    "examples": [
        OpenApiExample(
            signer_type.value,
            {"id": f"{signer_type.value}-1", "type": signer_type.value, "config": example},
            summary=signer_type.label,
            request_only=True,
        )
        for signer_type, example in EXAMPLES.items()
    ]
    + [SIGNER_EXAMPLE],
}


# The body does not matter: any change is refused.
CHANGE_SIGNER: dict[str, Any] = {"request": {"application/json": {"type": "object"}}, "responses": {}}


def add_components(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Add the schemas that have a name in the contract and no serializer here."""
    anything = {
        "type": "object",
        "additionalProperties": True,
        "description": "Any JSON object; what the signer needs of it is checked when it is used.",
    }
    schemas = result["components"]["schemas"]
    schemas["SignerTypeRequest"] = {"type": "string", "enum": SignerType.values}
    schemas["KeyRequestConfig"] = schemas["ServiceAccountRequestConfig"] = anything
    result["components"]["schemas"] = dict(sorted(schemas.items()))
    return result
