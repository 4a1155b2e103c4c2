from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ValidationError

from relayer_service.api.serializers import ChoiceField, ObjectField, StrictSerializer, StringField
from relayer_service.storage.resources import LONGEST_IDENTIFIER, new_identifier, validate_identifier
from signers.configs import CONFIGS
from signers.models import Signer
from signers.types import SignerType

SHOWN_TYPES = {signer_type.value: signer_type.shown for signer_type in SignerType}


class CreateSignerSerializer(StrictSerializer):
    """A signer to create: the config has the shape that its type asks for."""

    id = StringField(
        required=False,
        max_length=LONGEST_IDENTIFIER,
        validators=[validate_identifier],
        help_text="The caller's identifier; when it is left out, a UUID is generated.",
    )
    type = ChoiceField(choices=SignerType.choices)
    config = ObjectField()

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        config = CONFIGS[SignerType(attrs["type"])](data=attrs["config"])
        if not config.is_valid():
            raise ValidationError({"config": config.errors})
        return attrs | {"config": config.validated_data}

    def create(self, validated_data: dict[str, Any]) -> Signer:
        signer = Signer(identifier=validated_data.get("id", new_identifier()), type=validated_data["type"])
        signer.set_config(validated_data["config"])
        signer.save(force_insert=True)
        return signer

    def to_representation(self, instance: Signer) -> dict[str, Any]:
        return represent(instance.identifier, instance.type, instance.config)


def represent(identifier: str, signer_type: str, config: dict[str, Any]) -> dict[str, Any]:
    """Give a signer as answers show it."""
    return {"id": identifier, "type": SHOWN_TYPES[signer_type], "config": config}
