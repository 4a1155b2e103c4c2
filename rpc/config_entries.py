"""The entry of a fee token in a fleet file: the fields of its model, with its sources."""

from typing import Any

from django.core.exceptions import ValidationError as ModelError
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from relayer_service.amounts import BASIS_POINTS, parse_rate
from relayer_service.api.serializers import (
    REQUIRED,
    BooleanField,
    ChoiceField,
    IntegerField,
    ObjectField,
    StrictSerializer,
    StringField,
)
from relayers.policies import MAX_AMOUNT, EvmAddressField
from rpc.models import MAX_SECONDS, PriceSource


class RateField(StringField):
    """A decimal number as a string, which no JSON reader rounds."""

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        try:
            parse_rate(text)
        except ValueError as error:
            raise ValidationError(str(error)) from None
        return text


class AmountField(IntegerField):
    """A number in the file, digits in the database."""

    def to_internal_value(self, data: Any) -> Any:
        return str(super().to_internal_value(data))

    def to_representation(self, value: Any) -> int:
        return int(value)


class SecondsField(IntegerField):
    def __init__(self, *, min_value: int = 1) -> None:
        super().__init__(min_value=min_value, max_value=MAX_SECONDS, required=False)


class SourceEntry(StrictSerializer):
    """A source of a price, with the fields of its kind. `source` is the column where a field has another name."""

    kind = ChoiceField(choices=PriceSource.Kind.choices)
    rate = RateField(required=False, source="rate_text")
    max_age_seconds = SecondsField()
    feed = EvmAddressField(required=False)
    heartbeat_seconds = SecondsField()
    native_feed = EvmAddressField(required=False)
    native_heartbeat_seconds = SecondsField()
    sequencer_feed = EvmAddressField(required=False)
    sequencer_grace_seconds = SecondsField(min_value=0)
    pair = EvmAddressField(required=False)
    wrapped_native = EvmAddressField(required=False)
    min_liquidity = AmountField(max_value=MAX_AMOUNT, required=False, source="min_liquidity_text")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Leave out the fields of other kinds; where the kind is unknown, all are allowed."""
        fields = super().get_fields()
        kind = self._kind()
        if kind not in PriceSource.Kind.values:
            return fields
        names = ["kind", *PriceSource.fields_of(kind)]
        found = {name: field for name, field in fields.items() if (field.source or name) in names}
        for name, field in found.items():
            field.required = (field.source or name) in ["kind", *PriceSource.REQUIRED[PriceSource.Kind(kind)]]
        return found

    def _kind(self) -> Any:
        if self.instance is not None:
            return self.instance.kind
        return self.initial_data.get("kind") if isinstance(self.initial_data, dict) else None

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Apply the rules of the model; return its fields as it cleans them."""
        row = PriceSource(**attrs)
        try:
            row.full_clean(exclude=["token"])
        except ModelError as error:
            names = {field.source: name for name, field in self.fields.items()}
            raise ValidationError({names[name]: texts for name, texts in error.message_dict.items()}) from None
        return {name: getattr(row, name) for name in attrs}

    def to_representation(self, instance: PriceSource) -> dict[str, Any]:
        """Leave out what is not set."""
        values = {name: (field, getattr(instance, str(field.source))) for name, field in self.fields.items()}
        return {
            name: field.to_representation(value) for name, (field, value) in values.items() if value not in {"", None}
        }


class SourceField(ObjectField):
    def to_internal_value(self, data: Any) -> dict[str, Any]:
        entry = SourceEntry(data=super().to_internal_value(data))
        entry.is_valid(raise_exception=True)
        return dict(entry.validated_data)


class FeeTokenEntry(StrictSerializer):
    network = StringField(max_length=64)
    symbol = StringField(max_length=32)
    address = EvmAddressField()
    enabled = BooleanField(required=False)
    margin_bps = IntegerField(max_value=BASIS_POINTS, required=False)
    max_spread_bps = IntegerField(max_value=BASIS_POINTS, required=False)
    sources = serializers.ListField(
        child=SourceField(), error_messages={**REQUIRED, "not_a_list": "a list is required"}
    )
