"""What the entries of a config file hold: the shapes of the API, with an id each."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ParseError, ValidationError

from notifications.serializers import SigningKeyField, TypeField, WebhookUrlField
from relayer_service.api.parsers import loads
from relayer_service.api.serializers import (
    BooleanField,
    ChoiceField,
    IntegerField,
    ObjectField,
    StrictSerializer,
    StringField,
)
from relayer_service.storage.resources import LONGEST_IDENTIFIER, validate_identifier
from relayers.config_references import join
from relayers.models import Relayer
from relayers.policies import POLICIES, EvmAddressField, validate_policies
from relayers.rpc_urls import RpcUrlsField
from signers.configs import CONFIGS
from signers.types import SignerType

LARGEST_CHAIN_ID = 2**63 - 1


class IdField(StringField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=LONGEST_IDENTIFIER, validators=[validate_identifier], **kwargs)


class ReferenceField(StringField):
    """The id of a row that exists, or of another entry of the file."""

    def __init__(self, resource: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.resource = resource

    def to_internal_value(self, data: Any) -> str:
        identifier = super().to_internal_value(data)
        if identifier not in self.context[self.resource]:
            raise ValidationError(f"there is no {self.resource} with this id, neither in the file nor in the service")
        return identifier


class SignerConfigField(ObjectField):
    """The config of the entry's type. The secrets that are set are kept where the config leaves them out."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        config = dict(super().to_internal_value(data))
        assert isinstance(self.parent, SignerEntry)
        signer_type = self.parent.initial_data.get("type")
        if signer_type not in SignerType.values:
            return config
        for name, field in CONFIGS[SignerType(signer_type)]().fields.items():
            if isinstance(field, ObjectField) and isinstance(config.get(name), str):
                config[name] = _object(config[name])
        kept = self.context["secrets"]
        config = {name: value for name, value in config.items() if not (value is None and name in kept)}
        serializer = CONFIGS[SignerType(signer_type)](data={**kept, **config})
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)


def _object(text: str) -> Any:
    """Read an object that is written as text, as a variable has to hold it."""
    try:
        return loads(text.encode())
    except ParseError:
        return text


class PoliciesField(ObjectField):
    """The policies of the entry's network type."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        policies = super().to_internal_value(data)
        assert isinstance(self.parent, RelayerEntry)
        network_type = self.parent.initial_data.get("network_type")
        return validate_policies(network_type, policies) if network_type in [*POLICIES] else dict(policies)


class SignerEntry(StrictSerializer):
    id = IdField()
    type = ChoiceField(choices=SignerType.choices)
    config = SignerConfigField()


class NotificationEntry(StrictSerializer):
    id = IdField()
    type = TypeField()
    url = WebhookUrlField()
    signing_key = SigningKeyField(required=False, allow_null=True, allow_blank=True)


class RelayerEntry(StrictSerializer):
    id = IdField()
    name = StringField(max_length=255)
    network = StringField(max_length=64)
    network_type = ChoiceField(choices=Relayer.NetworkType.choices)
    chain_id = IntegerField(min_value=1, max_value=LARGEST_CHAIN_ID, required=False)
    address = EvmAddressField(required=False)
    signer_id = ReferenceField("signer")
    notification_id = ReferenceField("notification", required=False)
    paused = BooleanField(required=False)
    custom_rpc_urls = RpcUrlsField(required=False)
    policies = PoliciesField(required=False)


def lines(detail: Any, path: str) -> list[tuple[str, str]]:
    """Give each fault of a validation error with its path."""
    if isinstance(detail, dict):
        found = []
        for name, inner in detail.items():
            if name == "non_field_errors":
                found += lines(inner, path)
            else:
                found += lines(inner, f"{path}[{name}]" if isinstance(name, int) else join(path, name))
        return found
    if isinstance(detail, list):
        return [line for inner in detail for line in lines(inner, path)]
    return [(path, str(detail))]
