"""OpenAPI of signers: examples, and what their serializers cannot express. A request has one of seven shapes."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

from signers.config_shapes import CONFIGS, ConfigSerializer, SignerType
from signers.key_sources import HARDHAT_KEY
from signers.serializers import CreateSignerSerializer, SignerSerializer

SECRET_STORE = {"address": "https://secrets.example.com:8200", "key_name": "relayer-1"}
ROLE = {"role_id": "<role ID>", "secret_id": "<secret ID>"}
EXAMPLES: dict[SignerType, dict[str, Any]] = {
    SignerType.PLAIN: {"key": HARDHAT_KEY},
    SignerType.PROVIDER_A_KMS: {"key_id": "1234abcd-12ab-34cd-56ef-1234567890ab", "region": "eu-central-1"},
    SignerType.PROVIDER_B_KMS: {
        "key": {"location": "europe-west3", "key_ring_id": "relayers", "key_id": "relayer-1", "key_version": 1},
        "service_account": {"project_id": "example", "client_email": "relayer@example.com"},
    },
    SignerType.PROVIDER_C: {**SECRET_STORE, "mount_point": "secret", **ROLE},
    SignerType.PROVIDER_C_TRANSIT: {**SECRET_STORE, "pubkey": "<Ed25519 public key in base64>", **ROLE},
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
# The summaries of examples, by default the description of the config.
SUMMARIES = {SignerType.PLAIN: "The key of a public test account, which must never hold funds."}

SIGNER_EXAMPLE = OpenApiExample(
    "Signer", {"id": "signer-1", "type": "provider_c", "config": SECRET_STORE}, response_only=True
)


def request_shape(signer_type: SignerType, config: type[ConfigSerializer]) -> serializers.Serializer[Any]:
    @extend_schema_field({"allOf": [{"$ref": "#/components/schemas/SignerTypeRequest"}], "const": signer_type.value})
    class TypeField(serializers.CharField):
        pass

    name = config.__name__.removesuffix("Config")
    fields = {"type": TypeField(), "config": config()}
    shape: serializers.Serializer[Any] = type(f"{name}Signer", (CreateSignerSerializer,), fields)()
    return shape


SIGNER = {"examples": [SIGNER_EXAMPLE]}
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
            summary=SUMMARIES.get(signer_type) or str(CONFIGS[signer_type].__doc__),
            request_only=True,
        )
        for signer_type, example in EXAMPLES.items()
    ]
    + [SIGNER_EXAMPLE],
}


# Any change is refused, whatever the body is.
CHANGE_SIGNER: dict[str, Any] = {
    "request": {"application/json": {"type": "object", "examples": [{"id": "signer-1"}]}},
    "responses": {},
}


def add_components(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Add the schemas that the contract names and that have no serializer."""
    anything = {
        "type": "object",
        "additionalProperties": True,
        "description": "Any JSON object; its fields are checked when the signer is used.",
    }
    schemas = result["components"]["schemas"]
    schemas["SignerTypeRequest"] = {"type": "string", "enum": SignerType.values}
    schemas["KeyRequestConfig"] = schemas["ServiceAccountRequestConfig"] = anything
    result["components"]["schemas"] = dict(sorted(schemas.items()))
    return result
