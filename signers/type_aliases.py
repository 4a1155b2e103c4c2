"""The names that OpenZeppelin Relayer has for signer types, and where SIGNER_TYPE_ALIASES lets the API use them."""

from typing import Any

from django.conf import settings
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from relayer_service import extensions
from signers.config_shapes import SignerType
from signers.models import Signer
from signers.serializers import CreateSignerSerializer, SignerSerializer

TYPES: dict[str, SignerType] = {
    "local": SignerType.PLAIN,
    "aws_kms": SignerType.PROVIDER_A_KMS,
    "google_cloud_kms": SignerType.PROVIDER_B_KMS,
    "vault": SignerType.PROVIDER_C,
    "vault_transit": SignerType.PROVIDER_C_TRANSIT,
    "turnkey": SignerType.PROVIDER_D,
    "cdp": SignerType.PROVIDER_E,
}
ALIASES = {signer_type: alias for alias, signer_type in TYPES.items()}


class AliasedSignerSerializer(SignerSerializer):
    """A signer with the alias of its type."""

    def to_representation(self, instance: Signer) -> Any:
        return {**super().to_representation(instance), "type": ALIASES[SignerType(instance.type)]}


class CreateAliasedSignerSerializer(CreateSignerSerializer):
    """A signer to create, whose type is an alias."""

    answer_class = AliasedSignerSerializer

    def to_internal_value(self, data: Any) -> Any:
        return super().to_internal_value({**data, "type": TYPES[data["type"]].value})


def is_aliased(request: Request) -> bool:
    """Return whether the body of a request has an alias as its type, and the token is one of the extension.

    Raise an error that names the setting if it is off.
    """
    token: Any = request.auth
    signer_type = request.data.get("type") if isinstance(request.data, dict) else None
    if not isinstance(signer_type, str) or signer_type not in TYPES:
        return False
    if not extensions.is_enabled("lifecycle") or not token.scopes:
        return False
    if not settings.SIGNER_TYPE_ALIASES:
        text = f"{signer_type} is an alias: use {TYPES[signer_type].value}, or set SIGNER_TYPE_ALIASES=true"
        raise ValidationError({"type": [text]})
    return True
