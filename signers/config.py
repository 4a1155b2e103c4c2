"""Signers in fleet files."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ParseError

from relayer_service.api.parsers import loads
from relayer_service.api.serializers import ChoiceField, IdentifierField, ObjectField, StrictSerializer
from relayer_service.fleet.files import identifier_of
from relayer_service.fleet.references import Variables, escape
from relayer_service.fleet.sections import Change, Section
from signers.config_shapes import CONFIGS, shown_config
from signers.models import Signer
from signers.types import SignerType


class ConfigField(ObjectField):
    """The config of the entry's type. Secrets that it leaves out stay as they are set."""

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
    """Return an object that is written as text, the only way that a variable can hold one."""
    try:
        return loads(text.encode())
    except ParseError:
        return text


def kept_secrets(row: Signer | None, signer_type: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return the secrets that are set, unless they are of another type, or would now be sent to somewhere else."""
    if row is None or signer_type != row.type:
        return {}
    if any(config.get(name) != row.config.get(name) for name in CONFIGS[SignerType(row.type)].destination):
        return {}
    return row.readable_secrets() or {}


class SignerEntry(StrictSerializer):
    id = IdentifierField()
    type = ChoiceField(choices=SignerType.choices)
    config = ConfigField()


class SignerSection(Section):
    name = "signers"
    entry = SignerEntry
    queryset = Signer.objects.all()
    more_columns = ("secrets",)

    def change(self, path: str, row: Signer | None, values: dict[str, Any], broken: set[str]) -> Change | None:
        if row and values.get("type", row.type) != row.type:
            self.file.fault(f"{path}.type", f"the type of a signer cannot change, and this one is {row.type}")
            return None
        if broken:
            return None
        if row is None:
            change = Change(Signer(identifier=values["id"], type=values["type"]))
            change.row.set_config(values["config"])
        else:
            change = Change(row, self.snapshot(row))
            update_config(change, values["config"])
        # As saving does, so that the signer can be asked for its address before it is saved.
        Signer._meta.get_field("secrets").pre_save(change.row, add=change.created)
        return change

    @classmethod
    def dump_row(cls, row: Signer, variables: Variables) -> dict[str, Any]:
        config, shown = {}, shown_config(row.config)
        for name, field in CONFIGS[SignerType(row.type)]().fields.items():
            if name in row.config and row.config[name] == shown[name]:
                config[name] = escape(row.config[name])
            elif field.required:
                config[name] = variables.reference("signer", row.identifier, name)
        return {"id": escape(row.identifier), "type": row.type, "config": config}


def update_config(change: Change, config: dict[str, Any]) -> None:
    row: Signer = change.row
    before = {**row.config, **(row.readable_secrets() or {})}
    shape = CONFIGS[SignerType(row.type)]
    for name in map(str, shape().fields):
        if before.get(name) != config.get(name):
            change.note(f"config.{name}", "config" if name in shape.shown else "secrets")
    if not change.fields:
        return
    sealed = row.sealed_secrets
    row.set_config(config)
    # The same secrets are not encrypted again.
    if "secrets" not in change.columns:
        row.secrets = sealed
    change.columns |= {"verified_identity", "verified_at", "last_error"}
