"""Signers in fleet files."""

from typing import Any

from rest_framework.exceptions import ParseError

from relayer_service.api.parsers import loads
from relayer_service.api.serializers import ChoiceField, IdentifierField, ObjectField, StrictSerializer
from relayer_service.fleet.files import identifier_of
from relayer_service.fleet.references import Variables, escape
from relayer_service.fleet.sections import Section
from signers.config_shapes import CONFIGS, SignerType, shown_config
from signers.models import Signer
from signers.writes import SignerWrite, kept_secrets


class ConfigField(ObjectField):
    """The config of the entry's type. Omitted secrets are unchanged."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        config = dict(super().to_internal_value(data))
        assert isinstance(self.parent, SignerEntry)
        signer_type = self.parent.initial_data.get("type")
        if signer_type not in SignerType.values:
            return config
        shape = CONFIGS[SignerType(signer_type)]
        for name, field in shape().fields.items():
            if isinstance(field, ObjectField) and isinstance(config.get(name), str):
                config[name] = parse_object(config[name])
        kept = kept_secrets(self.context["rows"].get(identifier_of(self.parent.initial_data)), signer_type, config)
        config = {name: value for name, value in config.items() if not (value is None and name in kept)}
        serializer = shape(data={**kept, **config})
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)


def parse_object(text: str) -> Any:
    """Return an object from its JSON, the only format in which a variable can hold it."""
    try:
        return loads(text.encode())
    except ParseError:
        return text


class SignerEntry(StrictSerializer):
    id = IdentifierField()
    type = ChoiceField(choices=SignerType.choices)
    config = ConfigField()


class SignerSection(Section):
    name = "signers"
    entry = SignerEntry
    queryset = Signer.objects.all()
    write_class = SignerWrite
    more_columns = ("secrets",)

    def write(self, path: str, row: Any, values: dict[str, Any], broken: set[str]) -> Any:
        if row and values.get("type", row.type) != row.type:
            self.file.fault(f"{path}.type", f"the type of a signer cannot change, and this one is {row.type}")
            return None
        write = super().write(path, row, values, broken)
        if write:
            # As saving does, so that the signer's address can be read before it is saved.
            Signer._meta.get_field("secrets").pre_save(write.row, add=write.is_new)
        return write

    @classmethod
    def dump_row(cls, row: Signer, variables: Variables) -> dict[str, Any]:
        config, shown = {}, shown_config(row.config)
        for name, field in CONFIGS[SignerType(row.type)]().fields.items():
            if name in row.config and row.config[name] == shown[name]:
                config[name] = escape(row.config[name])
            elif field.required:
                config[name] = variables.reference("signer", row.identifier, name)
        return {"id": escape(row.identifier), "type": row.type, "config": config}
