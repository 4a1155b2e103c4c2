from typing import Any

import orjson
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from relayer_service.api.resource_serializers import CreateSerializer, ResourceSerializer
from relayer_service.api.serializers import ChoiceField, NewIdentifierField, ObjectField, StringField, collecting
from relayer_service.net.addresses import AT_SIGN
from signers.config_shapes import CONFIGS, SignerType, shown_config
from signers.writes import SignerWrite


class SignerTypeField(StringField):
    def to_representation(self, value: str) -> str:
        return "local" if value == "plain" else value


class SignerConfigSerializer(serializers.Serializer[Any]):
    """The fields of the config that are set and not secret."""

    def get_fields(self) -> dict[str, Any]:
        names = sorted({name for config in CONFIGS.values() for name in config.shown})
        return {name: StringField(required=False) for name in names}

    def to_representation(self, instance: str) -> Any:
        config = orjson.loads(instance)
        return shown_config(config) if AT_SIGN.search(config.get("address", "")) else config


class SignerSerializer(ResourceSerializer):
    """A signer, without its secrets."""

    id = StringField(source="identifier")
    type = SignerTypeField(help_text="The type as it was sent; `plain` is returned as `local`.")
    config = SignerConfigSerializer()


class CreateSignerSerializer(CreateSerializer):
    """A signer to create; the shape of the config depends on the type."""

    answer_class = SignerSerializer
    write_class = SignerWrite

    id = NewIdentifierField()
    type = ChoiceField(choices=SignerType.choices)
    config = ObjectField()

    def to_internal_value(self, data: Any) -> Any:
        """Check the config too if its type is valid, so that all faults are reported at once."""
        faults: dict[str, Any] = {}
        with collecting(faults):
            values = super().to_internal_value(data)
        if isinstance(data, dict) and not {"type", "config"} & faults.keys():
            with collecting(faults, "config"):
                config = CONFIGS[SignerType(data["type"])]().run_validation(data["config"])
        if faults:
            raise ValidationError(faults)
        return values | {"config": config}
